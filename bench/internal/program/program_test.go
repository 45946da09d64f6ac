package program

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
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
		Name: "counter", Does: "Counter counts.",
		Flags: func(fs *flag.FlagSet) { fs.IntVar(&n, "n", 2, "to what it counts") },
		Check: func() error { return Within("n", n, 0, 100, "") },
		Begin: func() string { return "counting" },
		Run: func(context.Context, func(string, ...any)) (count, error) {
			if n == 4 {
				return count{}, errors.New("cannot count to 4")
			}
			return count{n}, nil
		},
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
		{"-n -1", Trouble, "", "counter: -n is -1; it must be 0 to 100 (-h lists the flags)\n"},
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
	if status := counter().Invoke(context.Background(), []string{"-h"}, &out, &errs); status != Pass || !strings.Contains(out.String(), "go -C bench run ./counter") || !strings.Contains(out.String(), "-n int") {
		t.Errorf("status %d, %s%s", status, &out, &errs)
	}
}
