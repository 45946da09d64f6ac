//go:build linux && proof

package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/idlewheel/idlewheel/bench/internal/program"
)

// TestSmall measures all servers with few rounds, and a server that is almost idle.
func TestSmall(t *testing.T) {
	for args, servers := range map[string]int{"-server all -rounds 2 -silent 100": 6, "-server fasthttp -idle 100ms -rounds 2": 1} {
		var out, errs bytes.Buffer
		status := newProgram().Invoke(t.Context(), strings.Fields(args+" -json"), &out, &errs)
		var r report
		if err := json.Unmarshal(out.Bytes(), &r); err != nil || status != program.Pass || len(r.Servers) != servers {
			t.Fatalf("%s: status %d, %v, %d servers: %s", args, status, err, len(r.Servers), &errs)
		}
		for _, s := range r.Servers {
			for _, v := range s.Variants {
				if v.OpsPerS == 0 || v.CPUPerOp == 0 || v.CPUToBare == nil {
					t.Errorf("%s: %+v", s.Server, v)
				}
			}
			if s.Crowd != nil && s.Crowd.Silent > 0 && s.Crowd.Variants[len(s.Crowd.Variants)-1].Early > 0 {
				t.Errorf("%s: %+v", s.Server, s.Crowd)
			}
		}
	}
}
