package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// announce says on w, if that is a terminal, what is being done and for how long,
// until the function that it returns is called.
func announce(w io.Writer, what string, d time.Duration) (stop func()) {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return func() {}
	}
	fmt.Fprintf(w, "\r\033[K%s, %v ", what, d)
	return func() { fmt.Fprint(w, "\r\033[K") }
}
