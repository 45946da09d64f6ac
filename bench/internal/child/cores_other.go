//go:build !linux

package child

import (
	"errors"
	"os/exec"
)

var errSystem = errors.New("keeping a process on a core needs Linux")

// Allot keeps this process on one core, which is possible on Linux only.
func Allot() (core int, err error) { return 0, errSystem }

func startOn(int, *exec.Cmd) error { return errSystem }
