package idle_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// TestForceAfterBesideBlockedLoop has a handler block one of two loops while ForceAfter passes. All
// busy connections of both are ended when it goes on.
func TestForceAfterBesideBlockedLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const each = 20_000
		tracker, err := idle.New(idle.Policy{NoInterrupt: true, IdleTimeout: time.Hour}, &idle.Options{Tick: 10 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		hooks := &idle.Hooks{Expire: func(any, *idle.TimeoutError) { time.Sleep(50 * time.Microsecond) }} // it closes a socket
		var loops [2]chan func()
		for i := range loops {
			tasks := make(chan func(), 64)
			loops[i] = tasks
			go func() {
				for task := range tasks {
					task()
				}
			}()
			defer close(tasks)
			shard, err := tracker.NewShard(func(pass func()) error { tasks <- pass; return nil })
			if err != nil {
				t.Fatal(err)
			}
			tasks <- func() {
				for range each {
					if err := shard.Track(new(idle.Conn), i, hooks); err != nil {
						t.Error(err)
					}
				}
			}
		}
		defer tracker.Close()
		synctest.Wait()
		drain, err := tracker.Drain(idle.Drain{ForceAfter: 2 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(1900 * time.Millisecond)
		loops[0] <- func() { time.Sleep(1300 * time.Millisecond) }
		<-drain.Done()
		if p := drain.Progress(); p.Ended != len(loops)*each || p.Left > 0 {
			t.Errorf("%+v", p)
		}
	})
}
