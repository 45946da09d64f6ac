package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

// invoke runs the program with args.
func invoke(args string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	status = newProgram(new(config)).Invoke(context.Background(), strings.Fields(args), &out, &errs)
	return status, out.String(), errs.String()
}

func TestBadFlags(t *testing.T) {
	for args, want := range map[string]string{
		"-restarts 0":                "-restarts is 0; it must be 1 to 10000",
		"-lame-duck 1ms -restarts 1": "-lame-duck is 1ms; it must be 200ms to 1m0s, because the balancer has to notice",
	} {
		if status, _, stderr := invoke(args); status != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, %q", args, status, stderr)
		}
	}
}
