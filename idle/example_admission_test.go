package idle_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// A client may open two connections a second, so a loop that reconnects at once is refused,
// and nobody else notices.
func ExampleCapacity_newPerKey() {
	t, err := idle.New(idle.Policy{IdleTimeout: time.Minute}, nil)
	if err != nil {
		panic(err)
	}
	defer t.Close()
	err = t.SetCapacity(idle.Capacity{
		New:       idle.Quota{PerSecond: 1000},
		NewPerKey: idle.Quota{PerSecond: 2},
		Key:       func(owner any) string { return owner.(string) },
	})
	if err != nil {
		panic(err)
	}
	hooks := &idle.Hooks{Expire: func(any, *idle.TimeoutError) {}}
	for _, client := range []string{"alice", "bob", "bob", "bob", "alice"} {
		if err := t.Track(new(idle.Conn), client, hooks); errors.Is(err, idle.ErrFull) {
			fmt.Println(err)
		}
	}
	fmt.Println(t.Stats().RefusedRate, "refused")
	// Output:
	// connections of bob: too many connections in so short a time: idle: no room for another connection
	// 1 refused
}
