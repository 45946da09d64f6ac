package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// An attack is what a slow client does. It returns how it has ended.
type attack struct {
	what string
	run  func(net.Conn) string
}

var attacks = []attack{
	{"connects, and says nothing", listen},
	{"sends a header, a byte at a time", func(c net.Conn) string {
		go trickle(c, "GET / HTTP/1.1\r\nHost: "+strings.Repeat("x", 1000))
		return listen(c)
	}},
	{"sends half a body, and stops", func(c net.Conn) string {
		io.WriteString(c, "POST /upload HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\nabc")
		return listen(c)
	}},
	{"sends a body, a byte at a time", func(c net.Conn) string {
		io.WriteString(c, "POST /upload HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
		go trickle(c, strings.Repeat("x", 1000))
		return listen(c)
	}},
	{"asks for what takes too long", func(c net.Conn) string {
		io.WriteString(c, "GET /slow?for=6s HTTP/1.1\r\nHost: x\r\n\r\n")
		return listen(c)
	}},
	{"asks once, and keeps the connection", func(c net.Conn) string {
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		return listen(c)
	}},
	{"asks for much, and does not read it", func(c net.Conn) string {
		io.WriteString(c, "GET /download HTTP/1.1\r\nHost: x\r\n\r\n")
		return nudge(c)
	}},
}

// listen reads answers until the connection is closed, and tells which came when.
func listen(c net.Conn) string {
	heard, begun := "", time.Now()
	in := bufio.NewReader(c)
	for {
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			return heard + "closed"
		}
		io.Copy(io.Discard, res.Body)
		heard += fmt.Sprintf("%s after %.2fs, ", res.Status, time.Since(begun).Seconds())
	}
}

// trickle sends s for as long as somebody takes it.
func trickle(c net.Conn, s string) {
	for i := range len(s) {
		if _, err := c.Write([]byte{s[i]}); err != nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// nudge finds out without reading when the connection is closed: then it is no
// longer possible to send.
func nudge(c net.Conn) string {
	for {
		if _, err := c.Write([]byte{'x'}); err != nil {
			return "closed"
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// A result is what became of an attack.
type result struct {
	what, end string
	after     time.Duration
}

// attackAll runs all attacks at once, and returns their results as they end.
func attackAll(address string) <-chan result {
	results := make(chan result)
	for _, a := range attacks {
		go func() {
			begun := time.Now() // before the server can have accepted it
			c, err := net.Dial("tcp", address)
			if err != nil {
				results <- result{a.what, err.Error(), 0}
				return
			}
			defer c.Close()
			end := a.run(c)
			results <- result{a.what, end, time.Since(begun)}
		}()
	}
	return results
}

// visit is an honest client: it asks again and again until it is to stop, and
// tells how often, and how long it took at most.
func visit(address string, stop <-chan struct{}) (n int, slowest time.Duration, err error) {
	client := &http.Client{Timeout: time.Minute}
	defer client.CloseIdleConnections()
	for {
		select {
		case <-stop:
			return n, slowest, nil
		case <-time.After(20 * time.Millisecond):
		}
		begun := time.Now()
		res, err := client.Get("http://" + address + "/")
		if err != nil {
			return n, slowest, err
		}
		io.Copy(io.Discard, res.Body)
		res.Body.Close()
		n, slowest = n+1, max(slowest, time.Since(begun))
	}
}

// showAll runs into each timeout of the server, and shows how that ends.
func showAll(w io.Writer, address string) error {
	stop, stopped := make(chan struct{}), make(chan error)
	go func() {
		n, slowest, err := visit(address, stop)
		fmt.Fprintf(w, "%7s  %-36s %d answers, the slowest after %v\n", "", "an honest client meanwhile", n, slowest.Round(time.Microsecond))
		stopped <- err
	}()
	results := attackAll(address)
	for range attacks {
		r := <-results
		fmt.Fprintf(w, "%6.2fs  %-36s %s\n", r.after.Seconds(), r.what, r.end)
	}
	close(stop)
	return <-stopped
}
