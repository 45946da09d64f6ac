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

// lateByte calls test with a tracker and a connection of it. Just after it has been decided that the
// connection ends, and before OnEnd or Expire is called, a byte arrives.
func lateByte(t *testing.T, opts func(client net.Conn) *Options, test func(t *testing.T, tracker *idle.Tracker, server *Conn)) {
	synctest.Test(t, func(t *testing.T) {
		bare, client := net.Pipe()
		arrive := func(any) string { // is called at that moment
			client.SetWriteDeadline(time.Now().Add(time.Second))
			client.Write([]byte("x"))
			synctest.Wait() // for who has read it
			return ""
		}
		tracker, err := idle.New(idle.Policy{ReadTimeout: time.Second}, &idle.Options{Label: arrive, OnEnds: func([]idle.End) {}})
		if err != nil {
			t.Fatal(err)
		}
		defer tracker.Close()
		test(t, tracker, wrapped(t, bare, tracker, opts(client)))
		client.Close()
	})
}

// A byte that is read after the end was decided is not delivered.
func TestLateByteIsDiscarded(t *testing.T) {
	for how, read := range map[string]func(*Conn) (int64, error){
		"Read":    func(c *Conn) (int64, error) { n, err := c.Read(make([]byte, 10)); return int64(n), err },
		"WriteTo": func(c *Conn) (int64, error) { return c.WriteTo(io.Discard) },
	} {
		for reason, end := range map[idle.Reason]func(*idle.Tracker){
			idle.ReasonRead:  func(*idle.Tracker) {},
			idle.ReasonDrain: func(t *idle.Tracker) { t.Drain(idle.Drain{}) },
			idle.ReasonEvict: func(t *idle.Tracker) {
				t.SetCapacity(idle.Capacity{MaxConns: 10})
				t.EvictIdle(1)
			},
			idle.ReasonShed: func(t *idle.Tracker) {
				t.Visit(context.Background(), func(i idle.Info) { i.End("") })
			},
		} {
			for name, opts := range map[string]*Options{"": nil, " with OnEnd": {OnEnd: func(*Conn, *idle.TimeoutError) {}}} {
				t.Run(how+" "+reason.String()+name, func(t *testing.T) {
					lateByte(t, func(net.Conn) *Options { return opts }, func(t *testing.T, tracker *idle.Tracker, server *Conn) {
						time.AfterFunc(100*time.Millisecond, func() { end(tracker) })
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
	for name, closes := range map[string]bool{"expired": false, "closed": true} {
		t.Run(name, func(t *testing.T) {
			var over time.Time
			lateByte(t, func(client net.Conn) *Options {
				return &Options{OnEnd: func(c *Conn, _ *idle.TimeoutError) {
					client.Close()
					time.Sleep(100*time.Millisecond + 300*time.Microsecond)
					over = time.Now()
					if closes {
						c.Close()
						time.Sleep(time.Second / 2)
					}
				}}
			}, func(t *testing.T, _ *idle.Tracker, server *Conn) {
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
