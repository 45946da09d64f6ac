package admit

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func tcpAddr(addr string) net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(addr)) }

func newGate(t *testing.T, l Limits) *Gate {
	t.Helper()
	g, err := New(l)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func setLimits(t *testing.T, g *Gate, l Limits) {
	t.Helper()
	if err := g.SetLimits(l); err != nil {
		t.Fatal(err)
	}
}

func mayEnter(t *testing.T, g *Gate, addr string) (leave func()) {
	t.Helper()
	leave, err := g.Enter(tcpAddr(addr))
	if err != nil {
		t.Fatalf("Enter(%s): %v", addr, err)
	}
	return leave
}

func mayNotEnter(t *testing.T, g *Gate, addr, why string) {
	t.Helper()
	if _, err := g.Enter(tcpAddr(addr)); !errors.Is(err, ErrRefused) || err.Error() != ErrRefused.Error()+": "+why {
		t.Fatalf("Enter(%s): %v, want %s", addr, err, why)
	}
}

func wantStats(t *testing.T, g *Gate, want Stats) {
	t.Helper()
	if got := g.Stats(); got != want {
		t.Fatalf("the counts are %+v, want %+v", got, want)
	}
}

// An error names the field and the value. SetLimits has changed nothing then.
func TestInvalidLimits(t *testing.T) {
	g := newGate(t, Limits{PerKey: 1})
	for want, l := range map[string]Limits{
		"admit: Limits.PerKey is -3; use 0 for no limit":    {PerKey: -3},
		"admit: Limits.New is {PerSecond:-1 Burst:0}":       {New: Quota{PerSecond: -1}},
		"admit: Limits.New is {PerSecond:NaN Burst:0}":      {New: Quota{PerSecond: math.NaN()}},
		"admit: Limits.New is {PerSecond:+Inf Burst:0}":     {New: Quota{PerSecond: math.Inf(1)}},
		"admit: Limits.NewPerKey is {PerSecond:0 Burst:5}":  {NewPerKey: Quota{Burst: 5}},
		"admit: Limits.NewPerKey is {PerSecond:1 Burst:-5}": {NewPerKey: Quota{PerSecond: 1, Burst: -5}},
	} {
		if made, err := New(l); made != nil || err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("New(%+v) = %v, %v; want %s", l, made, err, want)
		}
		if g.SetLimits(l) == nil {
			t.Errorf("SetLimits(%+v) doesn't fail", l)
		}
	}
	mayEnter(t, g, "192.0.2.1:1")
	mayNotEnter(t, g, "192.0.2.1:2", "Limits.PerKey allows 1 of 192.0.2.1")
}

func TestByAddress(t *testing.T) {
	for _, c := range []struct {
		addr net.Addr
		want string
	}{
		{tcpAddr("192.0.2.1:80"), "192.0.2.1"},
		{tcpAddr("[::ffff:192.0.2.2]:80"), "192.0.2.2"},
		{tcpAddr("[2001:db8:0:1:2:3:4:5]:80"), "2001:db8:0:1::/64"},
		{&net.TCPAddr{IP: net.ParseIP("fe80::1"), Zone: "eth0"}, "fe80::/64"},
		{&net.TCPAddr{}, ""},
		{(*net.TCPAddr)(nil), ""},
		{&net.UnixAddr{Name: "/run/s"}, ""},
		{nil, ""},
	} {
		if got := ByAddress(c.addr); got != c.want {
			t.Errorf("ByAddress(%v) = %q, want %q", c.addr, got, c.want)
		}
	}
}

// Connections that are open when a limit is set count, and leaving twice counts once.
func TestPerKey(t *testing.T) {
	g := newGate(t, Limits{})
	leave := mayEnter(t, g, "192.0.2.1:1")
	mayEnter(t, g, "192.0.2.1:2")
	setLimits(t, g, Limits{PerKey: 2})
	mayNotEnter(t, g, "192.0.2.1:3", "Limits.PerKey allows 2 of 192.0.2.1")
	mayEnter(t, g, "192.0.2.2:1")
	for range 3 { // no key, no limit
		if _, err := g.Enter(nil); err != nil {
			t.Fatal(err)
		}
	}
	leave()
	leave()
	mayEnter(t, g, "192.0.2.1:3")
	mayNotEnter(t, g, "192.0.2.1:4", "Limits.PerKey allows 2 of 192.0.2.1")
	wantStats(t, g, Stats{Open: 6, PerKey: 2})
}

// Open connections count by a new Key at once. If it panics, nothing has changed.
func TestKeyReplaced(t *testing.T) {
	g := newGate(t, Limits{PerKey: 2})
	leave := mayEnter(t, g, "192.0.2.1:1")
	mayEnter(t, g, "192.0.2.2:1")
	everyone := func(net.Addr) string { return "everyone" }
	setLimits(t, g, Limits{PerKey: 2, Key: everyone})
	mayNotEnter(t, g, "192.0.2.3:1", "Limits.PerKey allows 2 of everyone")
	calls := 0
	panicking := Limits{Key: func(net.Addr) string {
		if calls++; calls == 2 {
			panic("second call")
		}
		return "x"
	}}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("a panic in Key is lost")
			}
		}()
		g.SetLimits(panicking)
	}()
	mayNotEnter(t, g, "192.0.2.3:1", "Limits.PerKey allows 2 of everyone")
	leave()
	mayEnter(t, g, "192.0.2.3:1")
	setLimits(t, g, Limits{PerKey: 1})
	mayNotEnter(t, g, "192.0.2.2:2", "Limits.PerKey allows 1 of 192.0.2.2")
	wantStats(t, g, Stats{Open: 2, PerKey: 3})
}

func TestQuotas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Limits{New: Quota{PerSecond: 1, Burst: 4}, NewPerKey: Quota{PerSecond: 0.1}}
		g := newGate(t, l)
		const slow, fast = "Limits.NewPerKey allows 0.1 per second of 192.0.2.1", "Limits.New allows 1 per second"
		mayEnter(t, g, "192.0.2.1:1")
		for range 10 { // doesn't use up New
			mayNotEnter(t, g, "192.0.2.1:1", slow)
		}
		for i := range 3 {
			mayEnter(t, g, fmt.Sprintf("192.0.2.%d:1", i+2))
		}
		mayNotEnter(t, g, "192.0.2.9:1", fast)
		l.PerKey = 100
		setLimits(t, g, l) // doesn't refill what stays the same
		mayNotEnter(t, g, "192.0.2.1:1", slow)
		mayNotEnter(t, g, "192.0.2.8:1", fast)
		time.Sleep(time.Second)
		mayEnter(t, g, "192.0.2.7:1")
		mayNotEnter(t, g, "192.0.2.6:1", fast)
		time.Sleep(9 * time.Second)
		mayEnter(t, g, "192.0.2.1:1")
		mayNotEnter(t, g, "192.0.2.1:1", slow)
		setLimits(t, g, Limits{})
		for range 100 {
			mayEnter(t, g, "192.0.2.1:1")
		}
		wantStats(t, g, Stats{Open: 106, New: 3, NewPerKey: 12})
	})
}

// A key is forgotten when its limiter is full again, and when its last connection has left.
func TestKeysAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, Limits{NewPerKey: Quota{PerSecond: 1}})
		for i := range 50_000 {
			mayEnter(t, g, fmt.Sprintf("10.0.%d.%d:1", i>>8, i&255))()
			time.Sleep(time.Millisecond) // a limiter is full after a second
		}
		if len(g.limiters) > 2*1024 || len(g.perKey) > 0 || len(g.open) > 0 {
			t.Errorf("%d limiters, %d keys and %d connections are left", len(g.limiters), len(g.perKey), len(g.open))
		}
	})
}
