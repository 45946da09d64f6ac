package usage

import "os"

// Descriptors returns how many descriptors this process has open, -1 if that
// cannot be found out.
func Descriptors() int {
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return -1
	}
	return len(all) - 1 // without that of the directory
}

// unlimited is a descriptor limit that is none.
const unlimited = 1 << 62
