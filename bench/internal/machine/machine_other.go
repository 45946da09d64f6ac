//go:build !linux

package machine

// cpuModel returns what the CPU is called.
func cpuModel() string { return Unknown }

// kernelRelease returns the version of the system.
func kernelRelease() string { return Unknown }

// FreeMemory returns how many bytes may be taken without harm: not known here.
func FreeMemory() uint64 { return 0 }
