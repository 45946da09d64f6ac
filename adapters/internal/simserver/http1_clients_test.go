package simserver

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// kinds are the kinds of HTTP/1 clients.
var kinds = []func(*Client){
	honest, honest, honest, honest, once(impatient), slowHandler,
	once(noHeader), once(halfHeader), once(halfBody), once(idles), once(neverReads), lastMoment,
}

// once is a kind of client that connects once.
func once(kind func(*caller)) func(*Client) {
	return func(client *Client) {
		if c := connect(client); c != nil {
			kind(c)
		}
	}
}

// A caller is an HTTP/1 client.
type caller struct {
	*Client
	in *bufio.Reader
}

// connect returns nil if the server no longer accepts.
func connect(c *Client) *caller {
	if !c.Dial() {
		return nil
	}
	return &caller{c, bufio.NewReader(c.Conn)}
}

// request returns the text of a request.
func request(o order, body int) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: sim\r\nContent-Length: %d\r\n\r\n%s", o.path(), body, strings.Repeat("b", body))
}

// send writes text in pieces, with pauses that the limits allow.
func (c *caller) send(text string) error {
	for len(text) > 0 {
		n := len(text)
		if c.Rand.IntN(3) == 0 {
			n = 1 + c.Rand.IntN(n)
		}
		if _, err := io.WriteString(c.Conn, text[:n]); err != nil {
			return err
		}
		if text = text[n:]; text != "" {
			c.Pause(300)
		}
		if len(text) > 0 && c.Rand.IntN(3) > 0 {
			_, err := io.WriteString(c.Conn, text)
			return err
		}
	}
	return nil
}

// exchange makes a request and reads its response. It reports whether the connection can be used again.
func (c *caller) exchange() bool {
	o := order{c.NextID(), c.Rand.IntN(60_000), time.Duration(c.Rand.IntN(200)) * time.Millisecond, "plain"}
	switch c.Rand.IntN(8) {
	case 0:
		o.kind = "error"
	case 1:
		o.kind = "timeout"
	case 2:
		o.kind = "own"
	}
	sent := c.send(request(o, c.Rand.IntN(3000)))
	r, err := http.ReadResponse(c.in, nil)
	if err != nil {
		if c.Executed(o.id) {
			c.Errorf("%s on %v was executed, and got %v (sending: %v; the limit: %v)", o.path(), c.Conn.LocalAddr(), err, sent, c.End().Err)
		}
		return false
	}
	if r.StatusCode != statuses[o.kind] {
		c.Errorf("%s got %s", o.path(), r.Status)
		return false
	}
	if n, err := io.Copy(io.Discard, r.Body); err != nil {
		c.Errorf("%s on %v was cut after %d bytes of %s: %v (%v)", o.path(), c.Conn.LocalAddr(), n, r.Header.Get("Content-Length"), err, c.End().Err)
		return false
	}
	at, _ := time.Parse(time.RFC3339Nano, r.Header.Get("At"))
	if drained := c.Drained(); !drained.IsZero() && at.After(drained) && !r.Close {
		c.Errorf("%s was answered %v after the drain, and not asked to close", o.path(), at.Sub(drained))
	}
	return !r.Close
}

// honest makes requests. Half of them come just when KeepAliveTimeout passes.
func honest(client *Client) {
	for range 5 {
		c := connect(client)
		if c == nil {
			return
		}
		for range 1 + c.Rand.IntN(8) {
			if !c.exchange() {
				break
			}
			pause := time.Duration(c.Rand.IntN(1500)) * time.Millisecond
			if c.Rand.IntN(2) == 0 {
				pause = limits.KeepAliveTimeout + time.Duration(c.Rand.IntN(40)-4)*Tick/8
			}
			time.Sleep(pause)
		}
		c.Conn.Close()
	}
}

// impatient leaves in the middle of a request or a response.
func impatient(c *caller) {
	text := request(order{c.NextID(), 100_000, 100 * time.Millisecond, "plain"}, 1000)
	c.send(text[:1+c.Rand.IntN(len(text))])
	c.Pause(400)
	switch c.Rand.IntN(3) {
	case 0:
		c.Conn.Reset()
	case 1:
		c.Conn.CloseWrite()
		io.Copy(io.Discard, c.Conn)
		c.Conn.Close()
	default:
		c.Conn.Close()
	}
}

// slowHandler asks for a handler that responds just when its HandlerTimeout passes. The answer has
// to be the handler's or the timeout's, never a mixture.
func slowHandler(client *Client) {
	for range 10 {
		c := connect(client)
		if c == nil {
			return
		}
		o := order{c.NextID(), 1 + c.Rand.IntN(10_000), handlerLimit + time.Duration(c.Rand.IntN(40)-20)*Tick/8, "limited"}
		io.WriteString(c.Conn, request(o, 0))
		r, err := http.ReadResponse(c.in, nil)
		if err != nil {
			if c.Executed(o.id) || !c.Evicts {
				c.Errorf("%s got %v", o.path(), err)
			}
			c.Conn.Close()
			continue
		}
		b, err := io.ReadAll(r.Body)
		want, cut := strings.Repeat("x", o.size/2*2), false
		if r.StatusCode == http.StatusServiceUnavailable {
			want = ""
		} else {
			cut = len(b) < len(want) && err != nil
			want = want[:len(b)]
		}
		if string(b) != want || err != nil && !cut {
			c.Errorf("%s got %s, %v and %.300q", o.path(), r.Status, err, b)
		}
		c.Conn.Close()
	}
}

// lastMoment has the rest of its request arrive just when HandshakeTimeout or HeaderTimeout passes. The request is
// answered, or it isn't executed.
func lastMoment(client *Client) {
	for range 5 {
		c := connect(client)
		if c == nil {
			return
		}
		begun, o := time.Now(), order{c.NextID(), c.Rand.IntN(10_000), 0, "plain"}
		text, n, limit := request(o, 0), 0, limits.HandshakeTimeout
		if c.Rand.IntN(2) == 0 {
			n, limit = 1, limits.HeaderTimeout
		}
		io.WriteString(c.Conn, text[:n])
		time.Sleep(time.Until(begun.Add(limit + time.Duration(c.Rand.IntN(40)-20)*Tick/8)))
		io.WriteString(c.Conn, text[n:])
		r, err := http.ReadResponse(c.in, nil)
		if err == nil {
			_, err = io.Copy(io.Discard, r.Body)
		}
		if executed := c.Executed(o.id); executed && (err != nil || r.StatusCode != http.StatusOK) {
			c.Errorf("%s on %v was executed, and got %v, %v", o.path(), c.Conn.LocalAddr(), r, err)
		}
		c.Conn.Close()
	}
}

func noHeader(c *caller) {
	c.WantEnd(time.Now(), "HandshakeTimeout", limits.HandshakeTimeout, LateAddr) // net/http doesn't read while RemoteAddr blocks
}

func halfHeader(c *caller) {
	go io.Copy(io.Discard, c.Conn) // the 408 response
	since := time.Now()
	for _, b := range "POST / HT" { // a trickle doesn't extend the limit
		io.WriteString(c.Conn, string(b))
		time.Sleep(100 * time.Millisecond)
	}
	c.WantEnd(since, "HeaderTimeout", limits.HeaderTimeout, 0)
}

func halfBody(c *caller) {
	go io.Copy(io.Discard, c.Conn)
	text := request(order{c.NextID(), 10, 0, "plain"}, 2000)
	io.WriteString(c.Conn, text[:len(text)-1500])
	c.WantEnd(time.Now(), "BodyTimeout", limits.BodyTimeout, time.Second) // in which the server answers
}

// idles makes one request. Half of these clients then send a blank line, with which a header begins.
func idles(c *caller) {
	if !c.exchange() {
		return
	}
	since, setting, limit := time.Now(), "KeepAliveTimeout", limits.KeepAliveTimeout
	if c.Rand.IntN(2) == 0 {
		c.Pause(500)
		since, setting, limit = time.Now(), "HeaderTimeout", limits.HeaderTimeout
		io.WriteString(c.Conn, "\n")
	}
	go func() {
		if b, _ := io.ReadAll(c.in); len(b) > 0 && setting == "KeepAliveTimeout" {
			c.Errorf("%v got %q and has asked for nothing", c.Conn.LocalAddr(), b)
		}
	}()
	c.WantEnd(since, setting, limit, 0)
}

// neverReads reads some responses fast and then none of the next one. They are large, or so small
// that no write waits for them.
func neverReads(c *caller) {
	size, n := 1_000_000, c.Rand.IntN(3)
	if c.Rand.IntN(2) == 0 {
		size, n = 4000, 100
	}
	for range n {
		io.WriteString(c.Conn, request(order{c.NextID(), size, 0, "plain"}, 0))
		r, err := http.ReadResponse(c.in, nil)
		if err != nil {
			return // because of the drain
		}
		if n, err := io.Copy(io.Discard, r.Body); err != nil {
			c.Errorf("a download was cut after %d bytes: %v", n, err)
			return
		}
		if r.Close {
			return
		}
	}
	since := time.Now()
	io.WriteString(c.Conn, request(order{c.NextID(), 1_000_000, 0, "plain"}, 0))
	setting, limit, more := c.writeLimit(Buffer + 16<<10) // what the network and one step of a write hold counts as read
	c.WantEnd(since, setting, limit, more)
}
