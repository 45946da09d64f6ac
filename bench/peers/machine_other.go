//go:build !linux

package main

// cpuModel returns what the CPU is called.
func cpuModel() string { return unknown }

// kernelRelease returns the version of the system.
func kernelRelease() string { return unknown }

// freeMemory returns how many bytes may be taken without harm: not known here.
func freeMemory() uint64 { return 0 }
