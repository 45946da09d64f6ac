package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"github.com/idlewheel/idlewheel/bench/internal/child"
	"github.com/idlewheel/idlewheel/bench/internal/program"
)

// TestMain lets the test's binary be the server process, as the program itself
// is otherwise.
func TestMain(m *testing.M) {
	child.Main(roles())
	os.Exit(m.Run())
}

// invoke runs the program with args.
func invoke(args ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	status = newProgram().Invoke(context.Background(), args, &out, &errs)
	return status, out.String(), errs.String()
}

func TestWrongFlags(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"-conns 0", "-conns is 0"},
		{"-idle 20ms", "-idle is 20ms"},
		{"-heartbeat 1ms", "-heartbeat is 1ms"},
		{"-active NaN", "-active is NaN"},
		{"-duration 5s", "-duration is 5s"},
		{"-scenario flood", "must be idle, reload"},
		{"-scenario drain -sockets 5", "-scenario is drain with -sockets"},
		{"-scenario drain -duration 10s", "-duration is 10s"},
		{"-scenario drain -over 1ms", "-over is 1ms"},
		{"-http 6060", `-http is "6060"; it must be host:port`},
		{"-http localhost:", `-http is "localhost:"; it must be host:port`},
		{"-http :6060 -sockets 5", `-http is ":6060" with -sockets`},
		{"-progress=often", `"often" for -progress`},
	} {
		status, stdout, stderr := invoke(strings.Fields(c.args)...)
		if status != program.Trouble || stdout != "" || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: status %d, %q on stdout, %q on stderr; want %q", c.args, status, stdout, stderr, c.want)
		}
	}
}
