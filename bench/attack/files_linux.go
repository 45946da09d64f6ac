package main

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// limitDescriptors leaves the process descriptors for so many connections, and
// no more.
func limitDescriptors(connections int) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	used, err := descriptors()
	if err != nil {
		return err
	}
	want := limitFor(used, connections)
	if want > limit.Cur {
		return fmt.Errorf("the process may have %d, but %d are needed", limit.Cur, want)
	}
	limit.Cur = want
	return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
}

// limitFor returns the limit below which so many descriptors are free.
func limitFor(used map[uint64]bool, free int) (limit uint64) {
	for ; free > 0; limit++ {
		if !used[limit] {
			free--
		}
	}
	return limit
}

// descriptors returns those that the process has.
func descriptors() (map[uint64]bool, error) {
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(0)
	if err != nil {
		return nil, err
	}
	used := map[uint64]bool{}
	for _, name := range names {
		fd, err := strconv.ParseUint(name, 10, 64)
		if err != nil {
			return nil, err
		}
		used[fd] = true
	}
	delete(used, uint64(dir.Fd()))
	return used, nil
}
