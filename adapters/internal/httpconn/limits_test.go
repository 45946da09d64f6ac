package httpconn

import (
	"net"
	"strconv"
	"testing"
	"time"
	"unsafe"

	"github.com/idlewheel/idlewheel/idle"
)

// TestSize pins what a connection costs: three cache lines, so that the allocator
// puts each at the beginning of one.
func TestSize(t *testing.T) {
	if strconv.IntSize != 64 {
		t.Skip("the size is that of 64-bit systems")
	}
	if size := unsafe.Sizeof(Conn{}); size != 192 {
		t.Errorf("a Conn takes %d bytes, not 192", size)
	}
	if at := unsafe.Offsetof(Conn{}.Conn); at != 8 {
		t.Errorf("idlenet's part begins at %d", at)
	}
}

// TestNoAllocation: a request costs none, with a body or without, whoever tells
// of its header.
func TestNoAllocation(t *testing.T) {
	for _, handler := range []time.Duration{0, time.Minute} {
		bare, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l, err := NewListener("httpconn", stillListener{bare}, Limits{Handler: handler})
		if err != nil {
			t.Fatal(err)
		}
		client, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		nc, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		c := nc.(*Conn)
		c.Accepted(nc)
		buf := make([]byte, 100)
		for name, request := range map[string]func(){
			"without a body": func() { c.Read(buf); c.Write(buf); c.Idle() },
			"with a body":    func() { c.Read(buf); c.HeaderRead(); c.Read(buf); c.Write(buf); c.Idle() },
			"in pieces":      func() { c.Read(buf); c.Read(buf); c.Write(buf); c.Idle() },
			"by a deadline": func() {
				c.Read(buf)
				c.SetReadDeadline(time.Now().Add(HeaderTimeout))
				c.Write(buf)
				c.Idle()
			},
		} {
			if n := testing.AllocsPerRun(100, request); n != 0 {
				t.Errorf("%s, handler limit %v: %v allocations", name, handler, n)
			}
		}
		client.Close()
		c.Close()
		l.Close()
	}
}

// policiesOf returns what becomes of l.
func policiesOf(t *testing.T, l Limits) [numPhases]idle.Policy {
	t.Helper()
	if err := l.complete("httpconn"); err != nil {
		t.Fatal(err)
	}
	return l.policies()
}

// TestDefaults are those that the adapters' documentation shows.
func TestDefaults(t *testing.T) {
	rate := idle.Rate{BytesPerSecond: 240, Grace: 5 * time.Second}
	const write = 30 * time.Second
	want := [numPhases]idle.Policy{
		Handshake: {Name: "handshake", ReadTotal: 10 * time.Second, WriteTimeout: write, MinWriteRate: rate},
		Header:    {Name: "request header", ReadTotal: 10 * time.Second, WriteTimeout: write, MinWriteRate: rate},
		Request:   {Name: "request", ReadTimeout: 30 * time.Second, MinReadRate: rate, WriteTimeout: write, MinWriteRate: rate},
		KeepAlive: {Name: "keep-alive", ReadTimeout: 75 * time.Second, WriteTimeout: write, MinWriteRate: rate},
		Streams:   {Name: "streams", IdleTimeout: 5 * time.Minute, WriteTimeout: write, MinWriteRate: rate},
		Hijacked:  {Name: "hijacked"},
	}
	for p, got := range policiesOf(t, Limits{}) {
		if got != want[p] {
			t.Errorf("%v is %+v, want %+v", Phase(p), got, want[p])
		}
	}
}

// TestOff leaves no limit at all.
func TestOff(t *testing.T) {
	off := idle.Rate{BytesPerSecond: Off}
	for p, got := range policiesOf(t, Limits{Handshake: Off, Header: Off, Body: Off, Handler: Off, Write: Off, KeepAlive: Off,
		Stream: Off, BodyRate: off, WriteRate: off}) {
		if want := (idle.Policy{Name: Phase(p).String()}); got != want {
			t.Errorf("%v is %+v", Phase(p), got)
		}
	}
}

// TestGraceHasADefault: a rate can be set without one. The grace of one that is
// off does not matter.
func TestGraceHasADefault(t *testing.T) {
	all := policiesOf(t, Limits{BodyRate: idle.Rate{BytesPerSecond: 7}, WriteRate: idle.Rate{BytesPerSecond: Off, Grace: time.Hour}})
	if got := all[Request].MinReadRate; got != (idle.Rate{BytesPerSecond: 7, Grace: 5 * time.Second}) {
		t.Errorf("%+v", got)
	}
	if got := all[Request].MinWriteRate; got != (idle.Rate{}) {
		t.Errorf("%+v", got)
	}
}

// TestTick is fine for short limits, and coarse for the usual ones.
func TestTick(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		limits Limits
		want   time.Duration
	}{
		{Limits{}, 100 * ms},
		{Limits{Header: 2 * time.Second}, 40 * ms},
		{Limits{BodyRate: idle.Rate{BytesPerSecond: 1, Grace: time.Second}}, 20 * ms},
		{Limits{Hijacked: idle.Policy{Heartbeat: idle.Heartbeat{Interval: time.Minute, Timeout: 3 * time.Second, Passive: true}}}, 60 * ms},
		{Limits{KeepAlive: 50 * ms}, 10 * ms},
	} {
		if err := c.limits.complete("httpconn"); err != nil {
			t.Fatal(err)
		}
		if got := c.limits.tick(); got != c.want {
			t.Errorf("%+v: %v, want %v", c.limits, got, c.want)
		}
	}
}
