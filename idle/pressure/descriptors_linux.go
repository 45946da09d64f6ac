package pressure

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"syscall"
)

const descriptorsDir = "/proc/self/fd"

// Descriptors returns which share of the file descriptors that the process may have
// (RLIMIT_NOFILE) are in use. It fails on systems other than Linux.
//
// Since Linux 6.2 this takes a few microseconds. On older systems it lists all descriptors, which
// takes longer.
func Descriptors() (float64, error) {
	used, err := openDescriptors()
	if err != nil {
		return 0, fmt.Errorf("pressure: descriptors in use: %w", err)
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("pressure: RLIMIT_NOFILE: %w", err)
	}
	return share(used, limit.Cur), nil
}

// openDescriptors returns how many descriptors are open. Since Linux 6.2 that is the
// size of their directory, which was 0 before.
func openDescriptors() (uint64, error) {
	info, err := os.Stat(descriptorsDir)
	if err != nil {
		return 0, err
	}
	if n := info.Size(); n > 0 {
		return uint64(n), nil
	}
	return listDescriptors()
}

// listDescriptors counts the descriptors that are open in their directory.
func listDescriptors() (n uint64, err error) {
	dir, err := os.Open(descriptorsDir)
	if err != nil {
		if errors.Is(err, syscall.EMFILE) {
			return math.MaxUint64, nil // none is left to look with, so all are in use
		}
		return 0, err
	}
	defer dir.Close()
	for {
		names, err := dir.Readdirnames(1024)
		n += uint64(len(names))
		if err == io.EOF {
			return n - 1, nil // without dir
		}
		if err != nil {
			return 0, err
		}
	}
}
