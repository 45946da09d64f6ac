//go:build proof

package idlenet

import (
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// Splice takes nothing from a socket whose end has been decided.
func TestLateByteIsNotSpliced(t *testing.T) {
	t.Parallel()
	bare, client := tcpPair(t)
	dst, _ := tcpPair(t)
	arrive := func(any) string {
		client.Write([]byte("x"))
		time.Sleep(50 * time.Millisecond) // for who might take it
		return ""
	}
	tracker, err := idle.New(idle.Policy{ReadTimeout: 100 * time.Millisecond}, &idle.Options{Label: arrive, OnEnds: func([]idle.End) {}})
	if err != nil {
		t.Fatal(err)
	}
	defer tracker.Close()
	server, err := wrapConn(bare, tracker, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	n, err := server.WriteTo(dst)
	if n > 0 {
		t.Errorf("%d bytes were delivered", n)
	}
	wantTimeout(t, err, idle.ReasonRead)
}
