// Package progress shows how a run goes: on a terminal as one line that changes,
// elsewhere, if that was asked for, as lines.
package progress

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/idlewheel/idlewheel/bench/internal/table"
)

// A Progress shows lines.
type Progress struct {
	out      io.Writer // nil: nowhere
	terminal bool
	columns  func() int // of the terminal
	width    int        // how much of the line is written
}

const (
	terminalPeriod = 250 * time.Millisecond
	linePeriod     = 2 * time.Second
)

// New returns a Progress on w, if w is a terminal or wanted is true.
func New(w io.Writer, wanted Flag) *Progress {
	f, ok := w.(*os.File)
	p := &Progress{terminal: ok && term.IsTerminal(int(f.Fd()))}
	if p.terminal {
		p.columns = func() int {
			if n, _, err := term.GetSize(int(f.Fd())); err == nil && n > 0 {
				return n
			}
			return table.Width
		}
	}
	if wanted.or(p.terminal) {
		p.out = w
	}
	return p
}

// Say shows a line.
func (p *Progress) Say(format string, args ...any) {
	if p.out == nil {
		return
	}
	line := fmt.Sprintf(format, args...)
	if !p.terminal {
		fmt.Fprintln(p.out, line)
		return
	}
	// A line that reaches the last column would wrap, and \r go back over a part of it.
	shown := []rune(line)
	shown = shown[:min(len(shown), max(p.columns()-1, 0))]
	fmt.Fprintf(p.out, "\r%s%s", string(shown), strings.Repeat(" ", max(0, p.width-len(shown))))
	p.width = len(shown)
}

// Clear takes the line off the terminal.
func (p *Progress) Clear() {
	if p.out != nil && p.terminal {
		p.Say("")
		fmt.Fprint(p.out, "\r")
	}
}

// Show shows what line returns again and again, until the function that it
// returns is called.
func (p *Progress) Show(line func() string) (stop func()) {
	if p.out == nil {
		return func() {}
	}
	period := linePeriod
	if p.terminal {
		period = terminalPeriod
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
type Flag struct{ set, value bool }

func (f *Flag) String() string {
	if !f.set {
		return "auto"
	}
	return strconv.FormatBool(f.value)
}

// Set sets the flag.
func (f *Flag) Set(s string) error {
	if s == "auto" {
		*f = Flag{}
		return nil
	}
	v, err := strconv.ParseBool(s)
	if err != nil {
		return errors.New("it must be true, false or auto")
	}
	*f = Flag{set: true, value: v}
	return nil
}

// IsBoolFlag has -progress alone mean -progress=true.
func (f *Flag) IsBoolFlag() bool { return true }

// or returns the flag's value, or byDefault if it has none.
func (f Flag) or(byDefault bool) bool {
	if f.set {
		return f.value
	}
	return byDefault
}
