package machine

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

// What is asked of /proc is unknown on systems that have none.

// cpuModel returns what the CPU is called.
func cpuModel() string { return fieldOf("/proc/cpuinfo", "model name") }

// kernelRelease returns the version of the system.
func kernelRelease() string {
	text, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return Unknown
	}
	return strings.TrimSpace(string(text))
}

// FreeMemory returns how many bytes may be taken without harm, 0 if that
// cannot be found out.
func FreeMemory() uint64 {
	var kib uint64
	if _, err := fmt.Sscan(fieldOf("/proc/meminfo", "MemAvailable"), &kib); err != nil {
		return 0
	}
	return kib << 10
}

// fieldOf returns what a file of lines "name: value" has for a name.
func fieldOf(file, name string) string {
	f, err := os.Open(file)
	if err != nil {
		return Unknown
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return Unknown
}
