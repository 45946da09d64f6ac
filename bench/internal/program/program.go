// Package program is the frame of a benchmark: flags, the output as a table or as
// JSON, and the exit status.
package program

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// The exit statuses.
const (
	Pass        = 0
	Fail        = 1   // a check failed
	Trouble     = 2   // the program couldn't run as asked
	Interrupted = 130 // as a shell reports Ctrl-C
)

// A Result is what a run has found. With -json it is written as JSON.
type Result interface {
	Table(w io.Writer) // writes it for people
	Status() int       // the exit status
}

// A Program is a benchmark with results of type R.
type Program[R Result] struct {
	Name  string
	Does  string              // the first lines of its help
	Flags func(*flag.FlagSet) // defines its flags; -json comes on top
	Check func() error        // checks the flags; its error names the flag and the value
	Begin func() string       // what is about to happen, written before the table

	// Run may call show to report its progress, which is shown on a terminal only.
	Run func(ctx context.Context, show func(format string, args ...any)) (R, error)
}

// Main runs p with the arguments and the standard streams of the process, and ends the
// process. The first Ctrl-C cancels the context of p.Run, and the second one kills.
func (p *Program[R]) Main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	status := p.Invoke(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// Invoke runs p with the given arguments, and returns the exit status.
func (p *Program[R]) Invoke(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet(p.Name, flag.ContinueOnError)
	fs.SetOutput(io.Discard) // an error is reported below, without a page of help after it
	p.Flags(fs)
	asJSON := fs.Bool("json", false, "write one JSON object to stdout, and nothing else")
	err := fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintf(stdout, "%s\n\nusage: go -C bench run ./%s [flags]\n\n", p.Does, p.Name)
		fs.SetOutput(stdout)
		fs.PrintDefaults()
		return Pass
	case err == nil && fs.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q; all arguments are flags", fs.Arg(0))
	case err == nil:
		err = p.Check()
	}
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v (-h lists the flags)\n", p.Name, err)
		return Trouble
	}
	if !*asJSON {
		fmt.Fprintln(stdout, p.Begin())
	}
	r, err := p.Run(ctx, progress)
	progress("")
	text, jsonErr := json.MarshalIndent(r, "", " ")
	err = cmp.Or(err, jsonErr)
	switch {
	case err != nil && ctx.Err() != nil:
		fmt.Fprintf(stderr, "%s: interrupted\n", p.Name)
		return Interrupted
	case err != nil:
		fmt.Fprintf(stderr, "%s: %v\n", p.Name, err)
		return Trouble
	case *asJSON:
		fmt.Fprintf(stdout, "%s\n", text)
	default:
		r.Table(stdout)
	}
	return r.Status()
}

// progress replaces the last line by another, if stderr is a terminal. A line that is longer would wrap.
func progress(format string, args ...any) {
	if info, err := os.Stderr.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		fmt.Fprintf(os.Stderr, "\r\x1b[K%.79s", fmt.Sprintf(format, args...))
	}
}

// Sleep waits, and reports whether ctx is not done.
func Sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	return ctx.Err() == nil
}

// Within returns an error if the value of a flag isn't in the range from least to most.
// The error ends with why.
func Within[T cmp.Ordered](flag string, value, least, most T, why string) error {
	if !(value >= least && value <= most) { // also if it is not a number
		return fmt.Errorf("-%s is %v; it must be %v to %v%s", flag, value, least, most, why)
	}
	return nil
}
