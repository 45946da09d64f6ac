package usage

import (
	"bytes"
	"fmt"
	"os"
)

// Resident returns how many bytes of a process are in memory, 0 if that cannot
// be found out.
func Resident(pid int) uint64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	var size, pages uint64
	if _, err := fmt.Fscan(bytes.NewReader(text), &size, &pages); err != nil {
		return 0
	}
	return pages * uint64(os.Getpagesize())
}
