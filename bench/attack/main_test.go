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
func invoke(args string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	status = newProgram(new(attack.Config)).Invoke(context.Background(), strings.Fields(args), &out, &errs)
	return status, out.String(), errs.String()
}

func TestWrongFlags(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"-server nginx", `-server is "nginx"; it must be one of http, https, fasthttp`},
		{"-attackers 0", "-attackers is 0"},
		{"-attackers many", `"many" for flag -attackers`},
		{"-rate 1", "-rate is 1"},
		{"-header 1ms", "-header is 1ms"},
		{"-every 2s", "-every is 2s; it must be 1ms to 1.5s, so that honest clients stay below -keepalive 3s"},
		{"-duration 5s", "-duration is 5s; it must be "},
		{"-sever http", "-sever"},
		{"-server net", `-server is "net"`},
		{"-capacity 1ms", "-capacity is 1ms"},
		{"http", `"http"`},
	} {
		status, stdout, stderr := invoke(c.args)
		if status != program.Trouble || stdout != "" || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: status %d, %q on stdout, %q on stderr; want %q", c.args, status, stdout, stderr, c.want)
		}
	}
}
