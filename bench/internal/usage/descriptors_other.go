//go:build !unix

package usage

// DescriptorLimit returns how many descriptors a process may have.
func DescriptorLimit() uint64 { return unlimited }
