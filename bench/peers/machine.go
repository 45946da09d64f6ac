package main

import (
	"context"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/idlewheel/idlewheel/bench/peers/contender"
)

// machine is where and of what the figures are.
type machine struct {
	CPU      string            `json:"cpu"`
	Cores    int               `json:"cores"`
	OS       string            `json:"os"`
	Arch     string            `json:"arch"`
	Release  string            `json:"release"` // of the system
	Go       string            `json:"go"`
	Commit   string            `json:"commit"`
	Modified bool              `json:"modified"` // there is something that the commit does not have
	Date     string            `json:"date"`
	Modules  map[string]string `json:"modules"` // the contenders' versions
}

// unknown stands for what the system does not tell.
const unknown = "not known here"

func takeMachine(ctx context.Context) machine {
	m := machine{
		CPU: cpuModel(), Cores: runtime.NumCPU(),
		OS: runtime.GOOS, Arch: runtime.GOARCH, Release: kernelRelease(),
		Go: runtime.Version(), Date: time.Now().UTC().Format(time.DateOnly),
		Modules: versions(),
	}
	m.Commit, m.Modified = commit(ctx)
	return m
}

// versions returns the version of every contender that is a module.
func versions() map[string]string {
	v := make(map[string]string)
	info, ok := debug.ReadBuildInfo()
	for _, k := range contender.All() {
		if k.Module == "" {
			continue
		}
		v[k.Module] = unknown
		if !ok {
			continue
		}
		for _, m := range info.Deps {
			if m.Path == k.Module {
				v[k.Module] = m.Version
			}
		}
	}
	return v
}

// commit asks git, because "go run" does not note it in the program.
func commit(ctx context.Context) (hash string, modified bool) {
	hash, ok := git(ctx, "rev-parse", "--short=12", "HEAD")
	if !ok {
		return unknown, false
	}
	changes, ok := git(ctx, "status", "--porcelain", "--untracked-files=no")
	return hash, !ok || changes != ""
}

func git(ctx context.Context, args ...string) (output string, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "git", args...).Output()
	return strings.TrimSpace(string(out)), err == nil
}
