package node

import (
	"strings"
	"testing"

	"github.com/idlewheel/idlewheel/examples/fleet/wire"
)

// TestClientNames: only names that JSON has as they are get in.
func TestClientNames(t *testing.T) {
	long := strings.Repeat("x", 64)
	for _, name := range []string{"a", "client-17", "A.b_C-9", long} {
		got, session, ok := wire.ParseHello(wire.NewHello(name, 7).Body)
		if got != name || session != 7 || !ok {
			t.Errorf("%q is %q, %d, %t", name, got, session, ok)
		}
	}
	for _, name := range []string{"", long + "x", "a b", "a\n", "<a>", "a\"", "\x00", "\xff", "\u00e4", "\ufffd"} {
		if _, _, ok := wire.ParseHello(wire.NewHello(name, 7).Body); ok {
			t.Errorf("%q is taken", name)
		}
	}
	if _, _, ok := wire.ParseHello(make([]byte, 7)); ok {
		t.Error("a hello without a session is taken")
	}
}
