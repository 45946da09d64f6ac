//go:build !linux

// E2e measures what timeouts cost a whole server. It needs Linux.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "e2e: it runs on Linux only")
	os.Exit(2)
}
