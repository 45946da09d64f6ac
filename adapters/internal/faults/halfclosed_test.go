//go:build proof

package faults

import (
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/idle"
)

// A peer that has closed its side is alive for as long as it is written to, and
// gets everything; when the server has nothing more to say, but does not close,
// the idle timeout does.
func TestHalfClosed(t *testing.T) {
	long(t)
	t.Parallel()
	const words, every = 12, limit / 4
	dialed, gap := make(chan time.Time, 1), make(chan time.Duration, 1)
	s := startNet(t, idle.Policy{IdleTimeout: limit}, nil, func(c *idlenet.Conn) error {
		begin := <-dialed
		io.Copy(io.Discard, c)
		var longest time.Duration
		for range words {
			time.Sleep(every)
			_, err := c.Write([]byte("word"))
			longest = max(longest, time.Since(begin))
			if err != nil {
				gap <- longest
				return err
			}
			begin = time.Now()
		}
		gap <- longest
		for c.Timeout() == nil {
			time.Sleep(every)
		}
		return c.Timeout()
	})
	dialed <- time.Now()
	c := dial(t, s.address)
	c.(*net.TCPConn).CloseWrite()
	c.SetReadDeadline(time.Now().Add(patience))
	got, err := io.ReadAll(c)
	if longest := soon(t, gap, "end of the words"); longest >= limit {
		t.Skipf("the machine is too busy: a server that was to write every %v was silent for %v", every, longest)
	}
	if len(got) != len("word")*words || err != nil {
		t.Errorf("got %d words and %v, want %d", len(got)/len("word"), err, words)
	}
	if r := s.reason(t); r != idle.ReasonIdle {
		t.Errorf("ended for %v", r)
	}
}

// A client that closes its side after a request gets its response, however much
// longer than the keep-alive timeout the handler takes: nothing is owed by it.
func TestHalfClosedRequest(t *testing.T) {
	long(t)
	t.Parallel()
	address, stop, err := newHTTPServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(3 * limit)
		io.WriteString(w, "late, but here")
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	begun := time.Now()
	c := dial(t, address)
	io.WriteString(c, request)
	c.(*net.TCPConn).CloseWrite()
	inTime(t, begun)
	c.SetReadDeadline(time.Now().Add(patience))
	got, err := io.ReadAll(c)
	if err != nil || len(got) == 0 || string(got[len(got)-len("late, but here"):]) != "late, but here" {
		t.Errorf("got %q and %v", got, err)
	}
}

// gnet ends a connection of which the peer has closed its side. That is no
// timeout.
func TestHalfClosedLoop(t *testing.T) {
	t.Parallel()
	s := startGnet(t, idle.Policy{IdleTimeout: limit}, func(c gnet.Conn, b []byte) { c.Write(b) })
	begun := time.Now()
	c := dial(t, s.address)
	io.WriteString(c, "hello")
	inTime(t, begun)
	c.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.ReadFull(c, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	c.(*net.TCPConn).CloseWrite()
	awaitEnd(t, c)
	end := time.Now().Add(patience)
	for st := s.wheel.Stats(); st.Live > 0 || st.Closed+st.TimedOut[idle.ReasonIdle] != 1; st = s.wheel.Stats() { // gnet says so after the client has seen the end
		if time.Now().After(end) {
			t.Fatalf("%+v, want one connection that is gone", st)
		}
		time.Sleep(limit / 100)
	}
}
