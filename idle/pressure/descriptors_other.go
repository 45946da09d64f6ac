//go:build !linux

package pressure

// Descriptors returns which share of the file descriptors that the process may have are
// in use. It fails on systems other than Linux.
func Descriptors() (float64, error) { return 0, unsupported("descriptors in use") }
