package idlenet

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// lateByte returns a tracker and a connection of it. Just after it has been decided that the
// connection ends, and before OnEnd or Expire is called, a byte arrives.
func lateByte(t *testing.T, p idle.Policy, opts *Options) (tracker *idle.Tracker, server *Conn, client net.Conn) {
	t.Helper()
	bare, client := net.Pipe()
	arrive := func(any) string { // is called at that moment
		client.SetWriteDeadline(time.Now().Add(time.Second))
		client.Write([]byte("x"))
		synctest.Wait() // for who has read it
		return ""
	}
	tracker, err := idle.New(p, &idle.Options{Label: arrive, OnEnds: func([]idle.End) {}})
	if err != nil {
		t.Fatal(err)
	}
	server, err = wrapConn(bare, tracker, opts)
	if err != nil {
		t.Fatal(err)
	}
	return tracker, server, client
}

// A byte that is read after the end was decided is not delivered.
func TestLateByteIsDiscarded(t *testing.T) {
	reads := map[string]func(*Conn) (int64, error){
		"Read": func(c *Conn) (int64, error) {
			n, err := c.Read(make([]byte, 10))
			return int64(n), err
		},
		"WriteTo": func(c *Conn) (int64, error) { return c.WriteTo(io.Discard) },
	}
	ends := map[idle.Reason]func(*idle.Tracker){
		idle.ReasonRead:  func(*idle.Tracker) {},
		idle.ReasonDrain: func(t *idle.Tracker) { t.Drain(idle.Drain{}) },
		idle.ReasonEvict: func(t *idle.Tracker) {
			t.SetCapacity(idle.Capacity{MaxConns: 10})
			t.EvictIdle(1)
		},
		idle.ReasonShed: func(t *idle.Tracker) {
			t.Visit(context.Background(), func(i idle.Info) { i.End("") })
		},
	}
	for how, read := range reads {
		for reason, end := range ends {
			for name, opts := range map[string]*Options{"": nil, " with OnEnd": {OnEnd: func(*Conn, *idle.TimeoutError) {}}} {
				t.Run(how+" "+reason.String()+name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						tracker, server, client := lateByte(t, idle.Policy{ReadTimeout: time.Second}, opts)
						defer func() {
							server.Close()
							client.Close()
							tracker.Close()
						}()
						go func() {
							time.Sleep(100 * time.Millisecond)
							end(tracker)
						}()
						n, err := read(server)
						if n > 0 {
							t.Errorf("%d bytes were delivered", n)
						}
						wantTimeout(t, err, reason)
					})
				})
			}
		}
	}
}

// A peer that closes in reply to what OnEnd writes does not hide the timeout, nor delay it: the
// read fails as soon as OnEnd has returned, or when the connection is closed.
func TestReadWaitsForExpire(t *testing.T) {
	const busy = 100*time.Millisecond + 300*time.Microsecond
	for name, closes := range map[string]bool{"expired": false, "closed": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var over time.Time
				var client net.Conn
				tracker, server, end := lateByte(t, idle.Policy{ReadTimeout: time.Second}, &Options{OnEnd: func(c *Conn, _ *idle.TimeoutError) {
					client.Close()
					time.Sleep(busy)
					over = time.Now()
					if closes {
						c.Close()
						time.Sleep(time.Second / 2)
					}
				}})
				client = end
				defer tracker.Close()
				defer server.Close()
				err := read1(server)
				if late := time.Since(over); late != 0 {
					t.Errorf("%v late", late)
				}
				if !closes {
					wantTimeout(t, err, idle.ReasonRead)
				}
			})
		})
	}
}
