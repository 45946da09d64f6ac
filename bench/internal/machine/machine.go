// Package machine tells where, and of what, figures are.
package machine

import (
	"context"
	"fmt"
	"maps"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

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

// Unknown stands for what the system does not tell.
const Unknown = "not known here"

// Take describes this machine, with the versions of the modules in this program
// that have the given paths.
func Take(ctx context.Context, modules ...string) Machine {
	m := Machine{
		CPU: cpuModel(), Cores: runtime.NumCPU(),
		OS: runtime.GOOS, Arch: runtime.GOARCH, Release: kernelRelease(),
		Go: runtime.Version(), Date: time.Now().UTC().Format(time.DateOnly),
		Modules: versions(modules),
	}
	m.Commit, m.Modified = commit(ctx)
	return m
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

func versions(modules []string) map[string]string {
	v := make(map[string]string)
	info, ok := debug.ReadBuildInfo()
	for _, path := range modules {
		v[path] = Unknown
		if !ok {
			continue
		}
		for _, m := range info.Deps {
			if m.Path == path {
				v[path] = m.Version
			}
		}
	}
	return v
}

// commit asks git, because "go run" does not note it in the program. The results,
// one of which is about to be written, are no changes of what is measured.
func commit(ctx context.Context) (hash string, modified bool) {
	hash, ok := git(ctx, "rev-parse", "--short=12", "HEAD")
	if !ok {
		return Unknown, false
	}
	changes, ok := git(ctx, "status", "--porcelain", "--untracked-files=no", "--", ":/", ":(top,exclude)bench/results")
	return hash, !ok || changes != ""
}

func git(ctx context.Context, args ...string) (output string, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "git", args...).Output()
	return strings.TrimSpace(string(out)), err == nil
}
