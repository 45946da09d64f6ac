package usage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// CPU returns how long the threads of a process have run. It is what the
// scheduler counts, to the nanosecond, and unlike the requests a second it does
// not depend on what else the machine does at the time, or hardly.
//
// Where there is no /proc, as on systems other than Linux, it fails.
func CPU(pid int) (time.Duration, error) {
	return sumThreads(fmt.Sprintf("/proc/%d/task", pid))
}

// sumThreads adds up what schedstat says of the threads in a directory.
func sumThreads(dir string) (sum time.Duration, err error) {
	threads, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	for _, thread := range threads {
		stat, err := os.ReadFile(filepath.Join(dir, thread.Name(), "schedstat"))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it has just ended
		}
		if err != nil {
			return 0, err
		}
		ran, err := parseSchedstat(string(stat))
		if err != nil {
			return 0, fmt.Errorf("thread %s: %w", thread.Name(), err)
		}
		sum += ran
	}
	if sum == 0 {
		return 0, fmt.Errorf("%s tells of no time: the kernel seems to keep no schedstat", dir)
	}
	return sum, nil
}

// parseSchedstat returns for how long a thread has run, which is the first of
// the three numbers in its schedstat.
func parseSchedstat(stat string) (time.Duration, error) {
	fields := strings.Fields(stat)
	if len(fields) != 3 {
		return 0, fmt.Errorf("schedstat is %q; three numbers were expected", stat)
	}
	ns, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("schedstat is %q: %w", stat, err)
	}
	return time.Duration(ns), nil
}
