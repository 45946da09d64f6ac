package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"github.com/idlewheel/idlewheel/bench/internal/attack"
	"github.com/idlewheel/idlewheel/bench/internal/child"
	"github.com/idlewheel/idlewheel/bench/internal/program"
)

func TestMain(m *testing.M) {
	child.Main(map[string]child.Role{attack.Role: attack.Serve})
	os.Exit(m.Run())
}

// invoke runs the program with args.
func invoke(ctx context.Context, args string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	status = newProgram(new(config)).Invoke(ctx, strings.Fields(args), &out, &errs)
	return status, out.String(), errs.String()
}

func TestWrongFlags(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"-duration 4s", "-duration is 4s"},
		{"-conns 3", "-conns is 3"},
		{"-slack 1ms", "-slack is 1ms"},
		{"-servers idlenet,apache", `no server "apache"`},
		{"-servers idlenet,idlenet", `"idlenet" is there twice`},
		{"-abuse -rounds 0", "-rounds is 0"},
	} {
		status, stdout, stderr := invoke(t.Context(), c.args)
		if status != program.Trouble || stdout != "" || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: status %d, %q on stdout, %q on stderr; want %q", c.args, status, stdout, stderr, c.want)
		}
	}
}
