package simulation

import (
	"fmt"
	"reflect"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/idle"
	"github.com/idlewheel/idlewheel/idle/internal/clock"
	"github.com/idlewheel/idlewheel/wheel"
)

// All that the simulation does and users can't is in this file. In virtual time a process can't
// stand still as a whole, and is never as old as a clock that wraps: so the clock is set forward.
// Six connections would be visited in one step, and keep no clock awake: so steps are shorter, and
// the clock wakes more easily. And what a closed tracker keeps in its wheels nobody sees.

// inside returns a field of what v points to.
func inside[T any](v any, field string) *T {
	f := reflect.ValueOf(v).Elem().FieldByName(field)
	if !f.IsValid() || f.Type() != reflect.TypeFor[T]() {
		panic(fmt.Sprintf("simulation: %T has no field %s of type %v; mend inside_test.go", v, field, reflect.TypeFor[T]()))
	}
	return (*T)(f.Addr().UnsafePointer())
}

func clockOf(t *idle.Tracker) *clock.Clock { return *inside[*clock.Clock](t, "clock") }

// ageClock makes the clock of a new tracker, in a bubble, that many ticks old,
// for the sake of what happens when the stamps wrap.
func ageClock(t *idle.Tracker, ticks int64) {
	synctest.Wait() // the driver sleeps, and reads start again only when woken
	k := clockOf(t)
	k.Shift(time.Duration(ticks) * k.Tick)
}

// runEasily has any activity wake the clock of a new tracker, in a bubble, and keep it
// running for quietTicks. So its stamps are those that the driver has copied.
func runEasily(t *idle.Tracker) {
	synctest.Wait()
	clockOf(t).Tune(clock.Tuning{Each: never / 2, Burst: time.Second, Few: 1, Need: quietTicks, Most: quietTicks})
}

const quietTicks = 64

// sleepOften has the clock of a new tracker, in a bubble, fall asleep and be woken all
// the time.
func sleepOften(t *idle.Tracker) {
	synctest.Wait()
	k := clockOf(t)
	k.Tune(clock.Tuning{Each: k.Tick, Burst: 2 * k.Tick, Few: 2, Need: 2, Most: 4})
}

// ownShards returns the shards that the driver passes over.
func ownShards(t *idle.Tracker) []*idle.Shard { return *inside[[]*idle.Shard](t, "own") }

// shardOf returns the shard that has c.
func shardOf(c *idle.Conn) *idle.Shard { return *inside[*idle.Shard](c, "shard") }

// setStride says how many connections a step of a visit has.
func setStride(s *idle.Shard, n int) { *inside[int](s, "stride") = n }

// measures reports whether the waits of c are measured by the real clock.
func measures(c *idle.Conn) bool {
	const exact = 1 << 9 // see conn.go
	state := reflect.ValueOf(c).Elem().FieldByName("state").Field(0).Addr().UnsafePointer()
	return (*atomic.Uint32)(state).Load()&exact != 0
}

// inWheel is how many connections are in the wheel of a shard.
func inWheel(s *idle.Shard) int { return inside[wheel.Wheel](s, "wheel").Len() }
