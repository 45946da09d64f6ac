package program

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

type count struct {
	N int `json:"n"`
}

func (c count) Table(w io.Writer) { fmt.Fprintf(w, "n is %d\n", c.N) }

func (c count) Status() int { return c.N % 2 }

// counter counts to what -n says.
func counter() *Program[count] {
	var n int
	return &Program[count]{
		Name: "counter", Does: "Counter counts.", Exits: "Exit status: 1 if the number is odd.",
		Flags: func(fs *flag.FlagSet) {
			fs.IntVar(&n, "n", 2, "to what it counts, which is explained in so many words that they do not fit a line")
		},
		Check: func() error {
			if n < 0 {
				return fmt.Errorf("-n is %d; it must not be negative", n)
			}
			return nil
		},
		Begin: func() string { return "counting" },
		Run: func(context.Context, io.Writer) (count, error) {
			if n == 4 {
				return count{}, errors.New("cannot count to 4")
			}
			return count{n}, nil
		},
		Files: []File[count]{{Flag: "out", Usage: "also write it to this `file`", Write: func(w io.Writer, c count) error {
			_, err := fmt.Fprint(w, c.N)
			return err
		}}},
	}
}

func TestInvoke(t *testing.T) {
	for _, c := range []struct {
		args           string
		status         int
		stdout, stderr string
	}{
		{"", Pass, "counting\nn is 2\n", ""},
		{"-n 3", Fail, "counting\nn is 3\n", ""},
		{"-json", Pass, "{\n \"n\": 2\n}\n", ""},
		{"-n 4", Trouble, "counting\n", "counter: cannot count to 4\n"},
		{"-n -1", Trouble, "", "counter: -n is -1; it must not be negative (-h lists the flags)\n"},
		{"-n x", Trouble, "", "counter: invalid value \"x\" for flag -n: parse error (-h lists the flags)\n"},
		{"5", Trouble, "", "counter: unexpected argument \"5\"; all arguments are flags (-h lists the flags)\n"},
	} {
		var out, errs bytes.Buffer
		status := counter().Invoke(context.Background(), strings.Fields(c.args), &out, &errs)
		if status != c.status || out.String() != c.stdout || errs.String() != c.stderr {
			t.Errorf("%q: status %d, %q, %q", c.args, status, out.String(), errs.String())
		}
	}
}

func TestHelp(t *testing.T) {
	var out, errs bytes.Buffer
	if status := counter().Invoke(context.Background(), []string{"-h"}, &out, &errs); status != Pass || errs.Len() > 0 {
		t.Errorf("status %d, %q", status, errs.String())
	}
	for _, want := range []string{"Counter counts.", "go -C bench run ./counter", "-n int", "(default 2)", "-out file", "1 if the number is odd"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, &out)
		}
	}
}

func TestFiles(t *testing.T) {
	var out, errs bytes.Buffer
	name := filepath.Join(t.TempDir(), "n")
	if status := counter().Invoke(context.Background(), []string{"-out", name}, &out, &errs); status != Pass {
		t.Errorf("status %d, %s", status, &errs)
	}
	if text, err := os.ReadFile(name); err != nil || string(text) != "2" {
		t.Errorf("got %q, %v", text, err)
	}
}
