// Package machine describes the machine that figures are from, and tells what processes
// use of it.
package machine

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A Machine is where and when figures were measured, and of what.
type Machine struct {
	CPU     string            `json:"cpu"`
	Cores   int               `json:"cores"`
	System  string            `json:"system"` // such as linux/amd64 6.18.44
	Go      string            `json:"go"`
	Commit  string            `json:"commit"` // with + at its end if the tree had changes
	Date    string            `json:"date"`
	Modules map[string]string `json:"modules,omitempty"` // versions of what idlewheel is compared with, or runs in
}

// Here describes this machine, with the versions of the given modules in this program.
func Here(modules ...string) Machine {
	m := Machine{
		CPU: "unknown", Cores: runtime.NumCPU(), System: runtime.GOOS + "/" + runtime.GOARCH,
		Go: runtime.Version(), Date: time.Now().UTC().Format(time.DateOnly), Commit: "unknown", Modules: map[string]string{},
	}
	info, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(info)) {
		if name, ok := strings.CutPrefix(line, "model name\t: "); ok {
			m.CPU = strings.TrimSpace(name)
			break
		}
	}
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.System += " " + strings.TrimSpace(string(release))
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if slices.Contains(modules, d.Path) {
				m.Modules[d.Path] = d.Version
			}
		}
	}
	// "go run" doesn't note the commit in the program. A result that is about to be
	// written is no change of what is measured.
	if hash, err := exec.Command("git", "rev-parse", "--short=12", "HEAD").Output(); err == nil {
		m.Commit = strings.TrimSpace(string(hash))
		changes, _ := exec.Command("git", "status", "--porcelain", "--untracked-files=no", "--", ":/", ":(top,exclude)bench/results").Output()
		if len(changes) > 0 {
			m.Commit += "+"
		}
	}
	return m
}

// String describes m in a line or two.
func (m Machine) String() string {
	text := fmt.Sprintf("%d cores of %s, %s, %s, commit %s, %s", m.Cores, m.CPU, m.System, m.Go, m.Commit, m.Date)
	for _, path := range slices.Sorted(maps.Keys(m.Modules)) {
		text += fmt.Sprintf("; %s %s", path, m.Modules[path])
	}
	return text
}

// A Usage is how the threads of a process have run, as the scheduler counts it. The time
// is exact to the nanosecond, and hardly depends on what else the machine does.
type Usage struct {
	CPU      time.Duration
	Switches int // context switches: how often a thread was given a core
}

// During returns how a process has run while do did something. It needs Linux.
func During(pid int, do func() error) (Usage, error) {
	before, err := usageOf(pid)
	if err != nil {
		return Usage{}, err
	}
	if err := do(); err != nil {
		return Usage{}, err
	}
	after, err := usageOf(pid)
	return Usage{after.CPU - before.CPU, after.Switches - before.Switches}, err
}

// usageOf adds up what schedstat says of the threads of a process. Its three numbers are
// for how many ns a thread has run, for how many it has waited for a core, and how often
// it was given one.
func usageOf(pid int) (sum Usage, err error) {
	dir := fmt.Sprintf("/proc/%d/task", pid)
	threads, err := os.ReadDir(dir)
	if err != nil {
		return Usage{}, err
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
			return Usage{}, fmt.Errorf("schedstat of thread %s: %w", thread.Name(), err)
		}
		sum.CPU += ran
		sum.Switches += switches
	}
	return sum, nil
}

// Enough returns an error that says what to do if the value of a flag asks for more
// descriptors than a process may have: so many for each, and some besides.
func Enough(flag string, value, each, besides int) error {
	need, limit := uint64(value)*uint64(each)+uint64(besides), Descriptors()
	if need <= limit {
		return nil
	}
	return fmt.Errorf("-%s is %d, which takes %d descriptors, but the limit of a process is %d; raise it with \"ulimit -n %d\", or use -%s %d",
		flag, value, need, limit, need, flag, max(0, int(limit)-besides)/each)
}
