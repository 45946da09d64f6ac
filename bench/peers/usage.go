package main

import "time"

// usage is what a process has used.
type usage struct {
	known   bool // else nothing of it is
	cpu     time.Duration
	wakeups int64 // times that a thread of it slept until something woke it up
}

// since returns what was used after before.
func (u usage) since(before usage) usage {
	return usage{u.known && before.known, u.cpu - before.cpu, u.wakeups - before.wakeups}
}
