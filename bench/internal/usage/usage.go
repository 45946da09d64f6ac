// Package usage tells what processes use: CPU time, memory and descriptors.
package usage

import (
	"bytes"
	"fmt"
	"os"
	"time"
)

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

// Resident returns how many bytes of a process are in memory, 0 if that cannot
// be found out, as on systems other than Linux.
func Resident(pid int) uint64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	var size, pages uint64
	if _, err := fmt.Fscan(bytes.NewReader(text), &size, &pages); err != nil {
		return 0
	}
	return pages * uint64(os.Getpagesize())
}
