// Package program is the frame of a benchmark: flags and help, the output as a
// table or as JSON, files besides, and the exit status.
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

	"github.com/idlewheel/idlewheel/bench/internal/table"
)

// The exit statuses.
const (
	Pass        = 0
	Fail        = 1   // what was tested is not as it has to be
	Trouble     = 2   // it could not be run as asked
	Interrupted = 130 // as a shell reports Ctrl-C
)

// A Result is what a run has found. With -json it is written as JSON.
type Result interface {
	Table(w io.Writer)
	Status() int
}

// A Program is a benchmark whose results are of type R.
type Program[R Result] struct {
	Name   string
	Does   string              // the first lines of its help
	Flags  func(*flag.FlagSet) // defines its flags; -json and those of Files come on top
	Check  func() error        // checks the flags, and names the flag and its value
	More   func(w io.Writer)   // writes help that follows the flags; may be nil
	Exits  string              // the last lines of its help, on exit statuses
	Begin  func() string       // what is about to be done; written before the table
	Run    func(ctx context.Context, stderr io.Writer) (R, error)
	Files  []File[R]
	asJSON bool
}

// A File is written besides, if its flag names one.
type File[R Result] struct {
	Flag, Usage string
	Write       func(w io.Writer, r R) error

	name string
	file *os.File
}

// Main runs p with the arguments and the standard streams of the process, and
// ends the process. Ctrl-C cancels the context of p.Run; the second one kills.
func (p *Program[R]) Main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	status := p.Invoke(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// Invoke runs p with the given arguments, and returns the exit status.
func (p *Program[R]) Invoke(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	err := p.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		p.help(stdout)
		return Pass
	}
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v (-h lists the flags)\n", p.Name, err)
		return Trouble
	}
	r, err := p.run(ctx, stdout, stderr)
	switch {
	case err != nil && ctx.Err() != nil:
		fmt.Fprintf(stderr, "%s: interrupted\n", p.Name)
		return Interrupted
	case err != nil:
		fmt.Fprintf(stderr, "%s: %v\n", p.Name, err)
		return Trouble
	}
	return r.Status()
}

// Parse sets the flags, and checks them. Its error names a flag and its value.
func (p *Program[R]) Parse(args []string) error {
	fs := p.flags()
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q; all arguments are flags", fs.Arg(0))
	}
	return p.Check()
}

// Sleep waits, and reports whether ctx is not done.
func Sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return ctx.Err() == nil
	}
}

// Within returns an error if the value of a flag is not in the range from least
// to most. The error ends with why.
func Within[T cmp.Ordered](flag string, value, least, most T, why string) error {
	if !(value >= least && value <= most) { // also if it is not a number
		return fmt.Errorf("-%s is %v; it must be %v to %v%s", flag, value, least, most, why)
	}
	return nil
}

func (p *Program[R]) flags() *flag.FlagSet {
	fs := flag.NewFlagSet(p.Name, flag.ContinueOnError)
	fs.SetOutput(io.Discard) // Invoke reports the error, without a page of help after it
	fs.Usage = func() {}
	p.Flags(fs)
	fs.BoolVar(&p.asJSON, "json", false, "write one JSON object to stdout, and nothing else")
	for i := range p.Files {
		fs.StringVar(&p.Files[i].name, p.Files[i].Flag, "", p.Files[i].Usage)
	}
	return fs
}

// run creates the files before the work, so that it is not in vain, and writes
// them after it.
func (p *Program[R]) run(ctx context.Context, stdout, stderr io.Writer) (r R, err error) {
	for i := range p.Files {
		f := &p.Files[i]
		if f.name == "" {
			continue
		}
		if f.file, err = os.Create(f.name); err != nil {
			return r, fmt.Errorf("-%s is %q; it must be a file that can be written: %w", f.Flag, f.name, err)
		}
		defer f.file.Close()
	}
	if !p.asJSON {
		table.Paragraph(stdout, p.Begin())
	}
	if r, err = p.Run(ctx, stderr); err != nil {
		return r, err
	}
	if p.asJSON {
		e := json.NewEncoder(stdout)
		e.SetIndent("", " ")
		err = e.Encode(r)
	} else {
		r.Table(stdout)
	}
	for _, f := range p.Files {
		if f.file != nil {
			err = errors.Join(err, f.Write(f.file, r), f.file.Close())
		}
	}
	return r, err
}

func (p *Program[R]) help(w io.Writer) {
	table.Paragraph(w, p.Does)
	fmt.Fprintf(w, "\nusage: go -C bench run ./%s [flags]\n\n", p.Name)
	p.flags().VisitAll(func(f *flag.Flag) {
		kind, text := flag.UnquoteUsage(f)
		if b, ok := f.Value.(interface{ IsBoolFlag() bool }); ok && b.IsBoolFlag() {
			kind = ""
		}
		if f.DefValue != "" && f.DefValue != "false" {
			text += " (default " + f.DefValue + ")"
		}
		table.Entry(w, "-"+f.Name+" "+kind, text, 22)
	})
	if p.More != nil {
		fmt.Fprintln(w)
		p.More(w)
	}
	table.Paragraph(w, "\n"+p.Exits)
}
