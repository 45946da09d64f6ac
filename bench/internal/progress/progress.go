// Package progress shows how a run goes: on a terminal as one line that changes,
// elsewhere, if that was asked for, as lines.
package progress

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/table"
)

// A Progress shows lines.
type Progress struct {
	out      io.Writer // nil: nowhere
	terminal bool
}

// New returns a Progress on w, if w is a terminal or wanted is true.
func New(w io.Writer, wanted Flag) *Progress {
	p := &Progress{}
	if f, ok := w.(*os.File); ok {
		info, err := f.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	if wanted == "true" || wanted != "false" && p.terminal {
		p.out = w
	}
	return p
}

// Say shows a line.
func (p *Progress) Say(format string, args ...any) {
	line := []rune(fmt.Sprintf(format, args...))
	switch {
	case p.out == nil:
	case p.terminal: // a line that reaches the last column would wrap
		fmt.Fprintf(p.out, "\r\x1b[K%s", string(line[:min(len(line), table.Width-1)]))
	default:
		fmt.Fprintln(p.out, string(line))
	}
}

// Clear takes the line off the terminal.
func (p *Progress) Clear() {
	if p.terminal {
		p.Say("")
	}
}

// Show shows what line returns again and again, until the function that it
// returns is called.
func (p *Progress) Show(line func() string) (stop func()) {
	period := 2 * time.Second
	if p.terminal {
		period = time.Second / 4
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(period)
		defer tick.Stop()
		for {
			select {
			case <-done:
				p.Clear()
				return
			case <-tick.C:
				p.Say("%s", line())
			}
		}
	})
	return func() {
		close(done)
		wg.Wait()
	}
}

// A Flag is true, false, or auto, which is true on a terminal. The zero value is
// auto.
type Flag string

func (f *Flag) String() string { return cmp.Or(string(*f), "auto") }

// Set sets the flag.
func (f *Flag) Set(s string) error {
	v, err := strconv.ParseBool(s)
	switch {
	case err == nil:
		*f = Flag(strconv.FormatBool(v))
	case s == "auto":
		*f = ""
	default:
		return errors.New("it must be true, false or auto")
	}
	return nil
}

// IsBoolFlag has -progress alone mean -progress=true.
func (f *Flag) IsBoolFlag() bool { return true }
