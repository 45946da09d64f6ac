package idlenet

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/simnet"
	"github.com/idlewheel/idlewheel/idle"
)

// A starved connection is one whose readers all come late.
type starved struct {
	*simnet.Conn
	wait func()
}

func (s starved) Read(b []byte) (int, error) {
	s.wait()
	return s.Conn.Read(b)
}

// A server that was slow to read must not hold it against the client: unread input puts a limit off once, until it's
// read.
func TestUnreadInput(t *testing.T) {
	const limit = 200 * time.Millisecond
	for name, test := range map[string]func(t *testing.T, bare, client *simnet.Conn){
		"that stays": func(t *testing.T, bare, client *simnet.Conn) {
			server := wrapped(t, bare, newTracker(t, idle.Policy{IdleTimeout: limit}), nil)
			begun := time.Now()
			client.Write([]byte("x"))
			eventually(t, "timed out", func() bool { return server.Timeout() != nil })
			wantTimeout(t, server.Timeout(), idle.ReasonIdle)
			if took := time.Since(begun); took < 2*limit-2*tick || took > 2*limit+3*tick {
				t.Errorf("timed out after %v", took)
			}
		},
		"that is read late": func(t *testing.T, bare, client *simnet.Conn) {
			server := wrapped(t, bare, newTracker(t, idle.Policy{IdleTimeout: limit}), nil)
			for range 3 { // the grant is good again after each read
				client.Write([]byte("x"))
				time.Sleep(limit + limit/2)
				if err := read1(server); err != nil {
					t.Fatal(err)
				}
			}
		},
		"of a reader that doesn't run": func(t *testing.T, bare, client *simnet.Conn) {
			server := wrapped(t, starved{bare, func() { time.Sleep(limit + limit/2) }}, newTracker(t, idle.Policy{ReadTimeout: limit}), nil)
			client.Write([]byte("x"))
			if err := read1(server); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bare, client := simulated(t, simnet.Whole)
				test(t, bare, client)
			})
		})
	}
}

// After EOF the peer owes nothing, however often a server asks. When the server has nothing more to say, but does not close,
// the idle timeout does.
func TestReadTimeoutDoesNotCountAfterEOF(t *testing.T) {
	const limit = 200 * time.Millisecond
	for name, read := range map[string]func(*Conn) error{
		"Read":    func(c *Conn) error { return readAll(c) },
		"WriteTo": func(c *Conn) error { _, err := c.WriteTo(io.Discard); return map[error]error{nil: io.EOF}[err] },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bare, client := simulated(t, simnet.Whole)
				server := wrapped(t, bare, newTracker(t, idle.Policy{
					IdleTimeout: limit, ReadTimeout: limit, MinReadRate: idle.Rate{BytesPerSecond: 1000, Grace: limit}}), nil)
				client.Write([]byte("request"))
				client.CloseWrite()
				if err := read(server); err != io.EOF {
					t.Fatal(err)
				}
				go readAll(client)
				for end := time.Now().Add(3 * limit); time.Now().Before(end); time.Sleep(limit / 10) {
					if _, err := server.Write([]byte("response")); err != nil {
						t.Fatal(err)
					}
					if err := read1(server); err != io.EOF {
						t.Fatal(err)
					}
				}
				time.Sleep(2 * limit)
				wantTimeout(t, server.Timeout(), idle.ReasonIdle)
			})
		})
	}
}

// A farewell that OnTimeout writes for IdleTimeout is no sign of life, whether the kernel tells of it or not. A write after
// OnTimeout has kept the connection is one.
func TestFarewellIsNoSignOfLife(t *testing.T) {
	for name, pair := range map[string]func(*testing.T) (net.Conn, net.Conn){
		"pipe":   func(*testing.T) (net.Conn, net.Conn) { return net.Pipe() },
		"socket": func(t *testing.T) (net.Conn, net.Conn) { return simulated(t, simnet.Whole) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const limit, takes = 300 * time.Millisecond, 100 * time.Millisecond
				asked := 0
				bare, client := pair(t)
				server := wrapped(t, bare, newTracker(t, idle.Policy{IdleTimeout: limit}), &Options{
					OnTimeout: func(c *Conn, _ *idle.TimeoutError) bool {
						if asked++; asked > 2 {
							c.Close()
						}
						c.Write(make([]byte, 10<<10)) // so that it waits
						time.Sleep(takes)             // so that the answer is a late one, before which the kernel is asked
						return asked == 1
					}})
				go readAll(client)
				used := time.Now().Add(2 * limit)
				time.AfterFunc(2*limit, func() { server.Write([]byte("x")) })
				wantTimeout(t, read1(server), idle.ReasonIdle)
				onTime(t, time.Now(), used, limit+takes)
				if asked != 2 {
					t.Errorf("asked %d times", asked)
				}
			})
		})
	}
}
