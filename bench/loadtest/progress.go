package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// A progress shows how the run goes: on a terminal as one line that changes,
// elsewhere, if it was asked for, as lines.
type progress struct {
	out      io.Writer // nil: nowhere
	terminal bool
	width    int // how much of the line is written
}

const (
	terminalPeriod = 250 * time.Millisecond
	linePeriod     = 2 * time.Second
)

func newProgress(cfg config, w io.Writer) *progress {
	f, ok := w.(*os.File)
	p := &progress{terminal: ok && term.IsTerminal(int(f.Fd()))}
	if cfg.progress.or(p.terminal) {
		p.out = w
	}
	return p
}

// say shows a line.
func (p *progress) say(format string, args ...any) {
	if p.out == nil {
		return
	}
	line := fmt.Sprintf(format, args...)
	if !p.terminal {
		fmt.Fprintln(p.out, line)
		return
	}
	fmt.Fprintf(p.out, "\r%s%s", line, strings.Repeat(" ", max(0, p.width-len(line))))
	p.width = len(line)
}

// clear takes the line off the terminal.
func (p *progress) clear() {
	if p.out != nil && p.terminal {
		p.say("")
		fmt.Fprint(p.out, "\r")
	}
}

// show shows what line returns again and again, until the function that it
// returns is called.
func (p *progress) show(line func() string) (stop func()) {
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
				p.clear()
				return
			case <-tick.C:
				p.say("%s", line())
			}
		}
	})
	return func() {
		close(done)
		wg.Wait()
	}
}
