package idle

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestCapacityLoweredBesideTrack lowers the capacity just before a Track that has loaded the old
// capacity takes a place. Then there's one connection too many, and one is evicted all the same.
func TestCapacityLoweredBesideTrack(t *testing.T) {
	for name, before := range map[string]Capacity{"lowered": {MaxConns: 10}, "set": {}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr, err := New(Policy{IdleTimeout: time.Hour}, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer tr.Close()
				if err := tr.SetCapacity(before); err != nil {
					t.Fatal(err)
				}
				hooks := &Hooks{Expire: func(any, *TimeoutError) {}}
				was := tr.room.limit.Load() // as Track has loaded it
				var first Conn
				if err := tr.Track(&first, "first", hooks); err != nil {
					t.Fatal(err)
				}
				if err := tr.SetCapacity(Capacity{MaxConns: 1}); err != nil {
					t.Fatal(err)
				}
				if err := tr.room.admitBy(was); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				synctest.Wait()
				if first.Live() {
					t.Error("there are too many, and nobody is evicted")
				}
			})
		})
	}
}
