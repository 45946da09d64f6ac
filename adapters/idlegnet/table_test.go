package idlegnet

import (
	"strconv"
	"testing"
	"time"
	"unsafe"

	"github.com/idlewheel/idlewheel/idle"
)

func TestTable(t *testing.T) {
	var tab table
	var conns []*conn
	for _, fd := range []int{0, 1, 4095, 4096, 5000, 1 << 20} {
		s := &conn{c: &fake{fd: fd}}
		if tab.get(s.c) != nil {
			t.Error("there is a conn of ", fd)
		}
		tab.put(s)
		conns = append(conns, s)
	}
	for _, s := range conns {
		if tab.get(s.c) != s {
			t.Error("it was lost: ", s.c.Fd())
		}
		if tab.get(&fake{fd: s.c.Fd()}) != nil {
			t.Error("another connection with the same descriptor was taken for it")
		}
	}
	for _, fd := range []int{-1, 1 << 30, 1<<24 - 1} {
		if tab.get(&fake{fd: fd}) != nil {
			t.Error("there is a conn of ", fd)
		}
	}
	// The descriptor is reused before somebody lets go of the old connection.
	old, next := conns[0], &conn{c: &fake{fd: conns[0].c.Fd()}}
	tab.put(next)
	tab.remove(old)
	if tab.get(next.c) != next || tab.get(old.c) != nil {
		t.Error("the new connection was removed in place of the old one")
	}
	tab.remove(next)
	if tab.get(next.c) != nil {
		t.Error("it was not removed")
	}
}

// TestSize pins the memory of a connection, and what it takes more if it has something
// that most have not.
func TestSize(t *testing.T) {
	if strconv.IntSize != 64 {
		t.Skip("it is of 64-bit systems")
	}
	if c, r := unsafe.Sizeof(conn{}), unsafe.Sizeof(rare{}); c > 168 || r > 32 {
		t.Errorf("a conn takes %d bytes, and a rare %d; at most 168 and 32 are allowed", c, r)
	}
}

// TestRareIsShared: what one connection has of its own is not of the others.
func TestRareIsShared(t *testing.T) {
	h := booted(t, &handler{traffic: leave}, idle.Policy{WriteTimeout: time.Minute}, nil)
	phase, err := h.Phase(idle.Policy{WriteTimeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	conns, loop := make([]*fake, 4), &fakeLoop{}
	for i := range conns {
		conns[i] = &fake{fd: i + 1, loop: loop}
		h.OnOpen(conns[i])
	}
	common := h.table.get(conns[3]).rare
	before := *common
	conns[0].in = 5 // left unread
	h.OnTraffic(conns[0])
	conns[1].out = 5 // waits
	h.OnTraffic(conns[1])
	h.Conn(conns[2]).Enter(phase)
	for i, c := range conns {
		if own := h.table.get(c).rare != common; own != (i < 3) {
			t.Errorf("connection %d has a rare of its own: %t", i, own)
		}
	}
	h.OnClose(conns[3], nil)
	if *common != before {
		t.Errorf("what all share was %+v, and is %+v", before, *common)
	}
}
