// Package usage tells what processes use: CPU time, memory and descriptors.
package usage

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// A Run is how the threads of a process have run, as the scheduler counts it. The
// time is exact to the nanosecond. Unlike the requests a second it hardly depends
// on what else the machine does.
type Run struct {
	CPU      time.Duration
	Switches int // context switches: how often a thread was given a core
}

// CPU returns how long the threads of a process have run.
//
// Where there is no /proc, as on systems other than Linux, it fails.
func CPU(pid int) (time.Duration, error) {
	r, err := sumThreads(fmt.Sprintf("/proc/%d/task", pid))
	return r.CPU, err
}

// During returns how a process has run while do did something.
func During(pid int, do func() error) (Run, error) {
	dir := fmt.Sprintf("/proc/%d/task", pid)
	before, err := sumThreads(dir)
	if err != nil {
		return Run{}, err
	}
	if err := do(); err != nil {
		return Run{}, err
	}
	after, err := sumThreads(dir)
	return Run{after.CPU - before.CPU, after.Switches - before.Switches}, err
}

// sumThreads adds up what schedstat says of the threads in a directory. Its three
// numbers are for how many ns a thread has run, for how many it has waited for a
// core, and how often it was given one.
func sumThreads(dir string) (sum Run, err error) {
	threads, err := os.ReadDir(dir)
	if err != nil {
		return Run{}, err
	}
	for _, thread := range threads {
		stat, err := os.ReadFile(filepath.Join(dir, thread.Name(), "schedstat"))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it has just ended
		}
		var ran, waited time.Duration
		var switches int
		if err == nil {
			_, err = fmt.Fscan(bytes.NewReader(stat), &ran, &waited, &switches)
		}
		if err != nil {
			return Run{}, fmt.Errorf("schedstat of thread %s: %w", thread.Name(), err)
		}
		sum.CPU += ran
		sum.Switches += switches
	}
	if sum.CPU == 0 {
		return Run{}, fmt.Errorf("%s tells of no time: the kernel seems to keep no schedstat", dir)
	}
	return sum, nil
}

// Resident returns how many bytes of a process are in memory, 0 if that cannot
// be found out, as on systems other than Linux.
func Resident(pid int) uint64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	var size, pages uint64
	fmt.Fscan(bytes.NewReader(text), &size, &pages)
	return pages * uint64(os.Getpagesize())
}

// Open returns how many descriptors this process has open, -1 if that cannot be
// found out.
func Open() int {
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return -1
	}
	return len(all) - 1 // without that of the directory
}

// Enough returns an error that says what to do if the value of a flag, a number of
// connections, asks for more descriptors than a process may have: so many for each
// connection, and some besides.
func Enough(flag string, value, each, besides int) error {
	need, limit := uint64(value)*uint64(each)+uint64(besides), Descriptors()
	if need <= limit {
		return nil
	}
	return fmt.Errorf("-%s is %d, which takes %d descriptors, but the limit of a process is %d; raise it with \"ulimit -n %d\" (as root, or after raising the hard limit), or use -%s %d",
		flag, value, need, limit, need, flag, max(0, int(limit)-besides)/each)
}
