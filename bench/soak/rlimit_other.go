//go:build !unix

package main

// descriptorLimit returns how many descriptors a process may have.
func descriptorLimit() uint64 { return unlimited }
