// Package machine tells where, and of what, figures are.
package machine

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// A Where is, in short, where figures are from.
type Where struct {
	GoVersion string `json:"go_version"`
	Platform  string `json:"platform"`
	CPUs      int    `json:"cpus"` // that Go uses
}

// Here returns where this process runs.
func Here() Where {
	return Where{runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, runtime.GOMAXPROCS(0)}
}

// A Machine is where and of what the figures of a run are.
type Machine struct {
	CPU      string            `json:"cpu"`
	Cores    int               `json:"cores"`
	OS       string            `json:"os"`
	Arch     string            `json:"arch"`
	Release  string            `json:"release"` // of the system
	Go       string            `json:"go"`
	Commit   string            `json:"commit"`
	Modified bool              `json:"modified"` // there is something that the commit does not have
	Date     string            `json:"date"`
	Modules  map[string]string `json:"modules"` // versions of what idlewheel is compared with, or runs in
}

// Unknown stands for what the system does not tell, as those without /proc.
const Unknown = "not known here"

// Take describes this machine, with the versions of the modules in this program
// that have the given paths.
func Take(ctx context.Context, modules ...string) Machine {
	m := Machine{
		CPU: fieldOf("/proc/cpuinfo", "model name"), Cores: runtime.NumCPU(),
		OS: runtime.GOOS, Arch: runtime.GOARCH, Release: Unknown,
		Go: runtime.Version(), Date: time.Now().UTC().Format(time.DateOnly),
		Commit: Unknown, Modules: map[string]string{},
	}
	if text, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Release = strings.TrimSpace(string(text))
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if slices.Contains(modules, d.Path) {
				m.Modules[d.Path] = d.Version
			}
		}
	}
	// "go run" does not note the commit in the program. The results, one of which is
	// about to be written, are no changes of what is measured.
	if hash, err := git(ctx, "rev-parse", "--short=12", "HEAD"); err == nil {
		changes, err := git(ctx, "status", "--porcelain", "--untracked-files=no", "--", ":/", ":(top,exclude)bench/results")
		m.Commit, m.Modified = hash, err != nil || changes != ""
	}
	return m
}

func git(ctx context.Context, args ...string) (output string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "git", args...).Output()
	return strings.TrimSpace(string(out)), err
}

// Facts are what a reader must know of m, as names and values. The modules are
// called as modules says.
func (m Machine) Facts(modules string) [][2]string {
	state := ""
	if m.Modified {
		state = ", with changes that are not committed"
	}
	var all []string
	for _, path := range slices.Sorted(maps.Keys(m.Modules)) {
		all = append(all, path+" "+m.Modules[path])
	}
	return [][2]string{
		{"machine", fmt.Sprintf("%d cores of %s", m.Cores, m.CPU)},
		{"system", fmt.Sprintf("%s/%s %s, %s", m.OS, m.Arch, m.Release, m.Go)},
		{"idlewheel", "commit " + m.Commit + state},
		{modules, strings.Join(all, ", ")},
	}
}

// fieldOf returns what a file of lines "name: value" has for a name.
func fieldOf(file, name string) string {
	text, _ := os.ReadFile(file)
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return Unknown
}
