package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

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

func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	status, stdout, stderr := invoke(t.Context(), "-duration 5s -conns 60 -slack 20s -json")
	var r map[string]any
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || status != program.Pass || stderr != "" {
		t.Errorf("status %d, %s, %s", status, stderr, stdout)
	}
	if n := len(r["servers"].([]any)); n != len(kinds()) {
		t.Errorf("%d servers, want %d", n, len(kinds()))
	}
	for _, s := range r["servers"].([]any) {
		s := s.(map[string]any)
		if s["tracked"] == 0.0 || len(s["timed_out"].(map[string]any)) == 0 {
			t.Errorf("%v: nothing happened", s)
		}
	}
}

func TestInterruption(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	status, stdout, stderr := invoke(ctx, "-duration 1h -conns 6 -slack 20s -servers idlenet,http2")
	if status != program.Pass || !strings.Contains(stdout, "Interrupted") {
		t.Errorf("status %d, %s%s", status, stdout, stderr)
	}
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
