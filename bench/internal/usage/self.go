package usage

import "time"

// A Usage is what this process has used.
type Usage struct {
	Known   bool // else nothing of it is
	CPU     time.Duration
	Wakeups int64 // times that a thread slept until something woke it up
}

// Since returns what was used after before.
func (u Usage) Since(before Usage) Usage {
	return Usage{u.Known && before.Known, u.CPU - before.CPU, u.Wakeups - before.Wakeups}
}
