//go:build !unix

package main

// takeUsage returns what this process has used until now: not known here.
func takeUsage() usage { return usage{} }
