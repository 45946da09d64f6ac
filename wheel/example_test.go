package wheel_test

import (
	"fmt"
	"unsafe"

	"github.com/idlewheel/idlewheel/wheel"
)

// Job is timed by its first field, so that a *wheel.Timer is a *Job.
type Job struct {
	timer    wheel.Timer
	deadline uint64
	name     string
}

func Example() {
	var w wheel.Wheel
	lunch := &Job{deadline: 1200, name: "lunch"}
	tea := &Job{deadline: 400, name: "tea"}
	w.Schedule(&lunch.timer, lunch.deadline)
	w.Schedule(&tea.timer, tea.deadline)

	tea.deadline = 1600 // later: the wheel need not know

	for {
		now, ok := w.Next()
		if !ok {
			break
		}
		w.Advance(now)
		for t := w.Pop(); t != nil; t = w.Pop() {
			job := (*Job)(unsafe.Pointer(t))
			if job.deadline > now {
				w.Schedule(t, job.deadline)
				continue
			}
			fmt.Println(now, job.name)
		}
	}
	// Output:
	// 1200 lunch
	// 1600 tea
}
