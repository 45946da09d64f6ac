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

// object decodes the one object that there has to be.
func object(t *testing.T, stdout string) (r map[string]any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(stdout))
	if err := d.Decode(&r); err != nil {
		t.Fatalf("%v in %q", err, stdout)
	}
	if d.More() {
		t.Error("wrote more than one object")
	}
	return r
}

func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	status, stdout, stderr := invoke(t.Context(), "-duration 5s -conns 60 -slack 20s -json")
	r := object(t, stdout)
	if status != program.Pass || stderr != "" {
		t.Errorf("status %d, %s, %s", status, stderr, stdout)
	}
	for _, key := range []string{"duration_s", "violations", "leaks", "servers", "late_ms", "drift_ms", "windows", "level_start", "level_end", "allowed"} {
		if _, ok := r[key]; !ok {
			t.Errorf("%q is missing", key)
		}
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
		{"-duration 200h", "-duration is 200h"},
		{"-duration soon", `"soon" for flag -duration`},
		{"-conns 3", "-conns is 3"},
		{"-conns 20000", "-conns is 20000"},
		{"-slack 1ms", "-slack is 1ms"},
		{"-servers idlenet,apache", `no server "apache"`},
		{"-servers idlenet,idlenet", `"idlenet" is there twice`},
		{"-abuse -rounds 0", "-rounds is 0"},
		{"-sloth", "-sloth"},
		{"600", `"600"`},
	} {
		status, stdout, stderr := invoke(t.Context(), c.args)
		if status != program.Trouble || stdout != "" || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: status %d, %q on stdout, %q on stderr; want %q", c.args, status, stdout, stderr, c.want)
		}
	}
}
