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
	columns  func() int // of the terminal
	width    int        // how much of the line is written
}

const (
	terminalPeriod = 250 * time.Millisecond
	linePeriod     = 2 * time.Second
)

func newProgress(cfg config, w io.Writer) *progress {
	f, ok := w.(*os.File)
	p := &progress{terminal: ok && term.IsTerminal(int(f.Fd()))}
	if p.terminal {
		p.columns = func() int {
			if n, _, err := term.GetSize(int(f.Fd())); err == nil && n > 0 {
				return n
			}
			return textWidth
		}
	}
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
	// A line that reaches the last column would wrap, and \r go back over a part of it.
	shown := []rune(line)
	shown = shown[:min(len(shown), max(p.columns()-1, 0))]
	fmt.Fprintf(p.out, "\r%s%s", string(shown), strings.Repeat(" ", max(0, p.width-len(shown))))
	p.width = len(shown)
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

// A standing is how a run goes, for a line of progress.
type standing struct {
	elapsed, duration time.Duration
	live              string // as it is shown; empty if it is not known
	closed, wrong     int
	activities        int64
	what              string // what an activity is
	latest            time.Duration
}

// String returns a line that fits a terminal, with ten million connections, too.
func (s standing) String() string {
	parts := []string{fmt.Sprintf("%.0f/%.0f s", s.elapsed.Seconds(), s.duration.Seconds())}
	if s.live != "" {
		parts = append(parts, s.live+" live")
	}
	closed := group(s.closed) + " closed"
	if s.wrong > 0 {
		closed += ", " + group(s.wrong) + " wrong"
	}
	parts = append(parts, closed, fmt.Sprintf("%s %s/s", short(float64(s.activities)/s.elapsed.Seconds()), s.what))
	return strings.Join(append(parts, "late "+s.latest.Round(time.Millisecond).String()), "  ")
}

// short writes a number with two digits or more, and thousands and millions as k and M.
func short(n float64) string {
	switch {
	case n >= 9.95e6:
		return fmt.Sprintf("%.0fM", n/1e6)
	case n >= 1e6:
		return fmt.Sprintf("%.1fM", n/1e6)
	case n >= 1e4:
		return fmt.Sprintf("%.0fk", n/1e3)
	}
	return fmt.Sprintf("%.0f", n)
}
