package main

import "os"

// openDescriptors returns how many the process has.
func openDescriptors() int {
	d, err := os.Open("/proc/self/fd")
	if err != nil {
		return -1
	}
	defer d.Close()
	all, err := d.Readdirnames(-1)
	if err != nil {
		return -1
	}
	return len(all) - 1 // without d itself
}
