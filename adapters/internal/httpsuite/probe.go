package httpsuite

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/intime"
)

// A Prober serves HTTP/1 as net/http of Go 1.28 does (golang/go#80735). After each response
// it reads with a short deadline. If that passes, the Prober releases its buffers and waits
// with a buffer of one byte. An adapter must not mistake that deadline for anything else,
// and must return the error that tailscale/go#183 expects.
type Prober struct {
	State    func(net.Conn, http.ConnState) // the server's hook; may be nil
	HandOver bool                           // after the probe, another goroutine reads
}

// probe is how long a Prober waits before it releases buffers.
const probe = 50 * ms

// serve serves the connections of ln until it's closed. Each response says whether a probe
// came before its request.
func (p Prober) serve(t testing.TB, ln net.Listener) {
	for {
		nc, err := ln.Accept()
		if err != nil {
			return
		}
		go p.converse(t, nc, "first", nil)
	}
}

func (p Prober) state(nc net.Conn, to http.ConnState) {
	if p.State != nil {
		p.State(nc, to)
	}
}

// converse serves nc. begun is what has been read of the next request.
func (p Prober) converse(t testing.TB, nc net.Conn, after string, begun []byte) {
	if begun == nil {
		p.state(nc, http.StateNew)
	}
	for {
		in := bufio.NewReader(io.MultiReader(bytes.NewReader(begun), nc))
		r, err := http.ReadRequest(in)
		if err != nil {
			break
		}
		p.state(nc, http.StateActive)
		io.Copy(io.Discard, r.Body)
		if _, err := fmt.Fprintf(nc, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(after), after); err != nil {
			break
		}
		p.state(nc, http.StateIdle)
		begun = make([]byte, 1)
		nc.SetReadDeadline(time.Now().Add(probe))
		_, err = nc.Read(begun)
		nc.SetReadDeadline(time.Time{})
		after = "at once"
		if err == nil {
			continue
		}
		if ne, ok := err.(net.Error); !ok || !ne.Timeout() || !errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
		in, r, after = nil, nil, "parked"
		park := func() bool { _, err := nc.Read(begun); return err == nil }
		if p.HandOver {
			go func() {
				if park() {
					p.converse(t, nc, after, begun)
				} else {
					p.end(nc)
				}
			}()
			return
		}
		if !park() {
			break
		}
	}
	p.end(nc)
}

func (p Prober) end(nc net.Conn) {
	nc.Close()
	p.state(nc, http.StateClosed)
}

// Probed tests that a client of a [Prober] may wait between two requests for wait, and no longer.
// listen wraps a listener, and returns the server's hook if there is one.
func Probed(t *testing.T, secure bool, wait time.Duration, listen func(t *testing.T, ln net.Listener) (net.Listener, func(net.Conn, http.ConnState))) {
	for _, handOver := range []bool{false, true} {
		t.Run(fmt.Sprintf("another goroutine %v", handOver), func(t *testing.T) {
			t.Parallel()
			ln, hook := listen(t, Listen(t))
			defer ln.Close()
			if secure {
				ln = tlsListener(ln)
			}
			go Prober{hook, handOver}.serve(t, ln)
			inTime := intime.Of(t, wait/6)
			c := Connect(t, ln.Addr())
			c.T = inTime
			if secure {
				c.Shake()
			}
			for i, want := range []string{"first", "parked", "parked"} {
				if i > 0 {
					time.Sleep(2 * probe)
					inTime.Late(time.Since(c.sent) - 2*probe) // it may also have read the response late
				}
				c.Send(Post(2) + "ab")
				if got := c.Want(http.StatusOK); got != want && want != "parked" {
					inTime.Errorf("request %d: %q, want %q", i, got, want)
				}
			}
			begun := c.Send(Get("/"))
			c.Want(http.StatusOK)
			NotBefore(t, c.WantClosed(), begun, wait)
		})
	}
}

var ofProbes = []promise{
	// KeepAliveTimeout covers the whole wait for the next request: the read with a short
	// deadline, and the wait without buffers after it.
	{"Probe", usual, func(t *testing.T, u under) {
		const wait = 600 * ms
		Probed(t, u.Secure, wait, func(t *testing.T, inner net.Listener) (net.Listener, func(net.Conn, http.ConnState)) {
			inTime := intime.Of(t, wait/6)
			to := Only(wait, "KeepAliveTimeout")
			to.HeaderTimeout, to.BodyTimeout = wait/3, wait/3
			ln, hook, err := u.Hooked(inner, to)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if st := ln.Stats(); st.Phases["keep-alive"] != 1 || st.Limits["KeepAliveTimeout"] != 1 {
					inTime.Errorf("timed out in %v", st.Phases)
				}
			})
			return ln, hook
		})
	}},
}

// ProbeSavesMemory tests that a connection on which a [Prober] waits takes little more memory
// with the adapter than without: no buffer and no goroutine. No other test may run meanwhile.
func ProbeSavesMemory(t *testing.T, server Server) {
	const conns = 200
	held := func(ln net.Listener, p Prober) (bytes, goroutines int) {
		defer ln.Close()
		var idle sync.WaitGroup
		idle.Add(conns)
		hook := p.State
		p.State = func(nc net.Conn, to http.ConnState) {
			if hook != nil {
				hook(nc, to)
			}
			if to == http.StateIdle {
				idle.Done()
			}
		}
		go p.serve(t, ln)
		before := heap()
		were := runtime.NumGoroutine()
		var clients []net.Conn
		for range conns {
			nc, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			io.WriteString(nc, Get("/"))
			clients = append(clients, nc)
		}
		idle.Wait()
		time.Sleep(10 * probe)
		after := heap()
		goroutines = runtime.NumGoroutine() - were
		for _, nc := range clients {
			nc.Close()
		}
		return (after - before) / conns, goroutines
	}
	bare, its := held(Listen(t), Prober{})
	ln, hook, err := server.Hooked(Listen(t), Timeouts{})
	if err != nil {
		t.Fatal(err)
	}
	ours, more := held(ln, Prober{State: hook})
	t.Logf("a waiting connection takes %d bytes, without the adapter %d", ours, bare)
	if ours > max(bare, 0)+2000 { // a buffer would add 4096
		t.Errorf("a waiting connection takes %d bytes, without the adapter %d: a buffer is kept", ours, bare)
	}
	if more > its+conns/2 {
		t.Errorf("%d connections take %d goroutines, without the adapter %d", conns, more, its)
	}
}

// heap returns how many bytes of heap are in use. It collects three times, to empty pools too.
func heap() int {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
