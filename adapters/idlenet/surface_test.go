package idlenet

import (
	"net"
	"reflect"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/netconn"
	"github.com/idlewheel/idlewheel/idle"
)

// TestOnlyAdaptersSeeTheMachinery: what an HTTP adapter does to a connection would break it
// if users called it.
func TestOnlyAdaptersSeeTheMachinery(t *testing.T) {
	users, adapters := reflect.TypeFor[*Conn](), reflect.TypeFor[*netconn.Conn]()
	for _, name := range []string{"Init", "ReadAhead", "RawConn"} {
		if _, has := adapters.MethodByName(name); !has {
			t.Errorf("adapters have no %s", name)
		}
		if _, has := users.MethodByName(name); has {
			t.Errorf("users see %s", name)
		}
	}
	a, b := net.Pipe()
	defer b.Close()
	var embedded struct{ netconn.Conn } // as an HTTP adapter's
	if err := embedded.Init(a, newTracker(t, idle.Policy{IdleTimeout: time.Minute}), &embedded, netconn.NewSetup(idle.Hooks{}, nil)); err != nil {
		t.Fatal(err)
	}
	defer embedded.Close()
	if Unwrap(&embedded) != nil {
		t.Error("From finds a Conn in an adapter's connection")
	}
}
