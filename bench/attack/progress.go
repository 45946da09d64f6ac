package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// announce says on w, if that is a terminal, what is being done and for how long.
func announce(w io.Writer, what string, d time.Duration) {
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		fmt.Fprintf(w, "attack: %s, %v\n", what, d)
	}
}
