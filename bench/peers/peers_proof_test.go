//go:build proof

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/program"
	"github.com/idlewheel/idlewheel/bench/peers/contender"
)

// TestQuick: each contender has a figure in a small contest, and keeps its word.
func TestQuick(t *testing.T) {
	var out, errs bytes.Buffer
	status := newProgram().Invoke(context.Background(), strings.Fields("-quick -json -run reset-hot|stale-spread"), &out, &errs)
	var r report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil || status != program.Pass {
		t.Fatalf("status %d, %v: %s", status, err, &errs)
	}
	figures := 0
	for _, row := range r.Rows {
		for name, f := range row.Figures {
			figures++
			if len(f.Turns) == 0 || name != "timingwheel" && f.Early > 0 || f.Lost > 0 {
				t.Errorf("%s of %s: %+v", row.Measure, name, f)
			}
		}
	}
	if figures != 4*5 {
		t.Errorf("%d figures", figures)
	}
}

// TestContenders arms four of five connections with each contender, and cancels one of them.
// The other three must expire once. How late they may be is checked by the workloads.
func TestContenders(t *testing.T) {
	for _, k := range contender.All() {
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			const timeout = time.Second
			begun := time.Now()
			var expired [5]atomic.Int32
			var sum atomic.Int32
			c, err := k.New(5, timeout, func(i int) {
				expired[i].Add(1)
				sum.Add(1)
			})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			for _, i := range []int{0, 1, 2, 3} {
				c.Arm(i)
			}
			c.Cancel(1)
			c.Touch([]uint32{0, 2, 0})
			c.Cancel(3)
			c.Arm(3)
			if took := time.Since(begun); took > timeout/2 {
				t.Skipf("inconclusive: the machine needed %v for that", took)
			}
			for deadline := time.Now().Add(20 * time.Second); sum.Load() < 3 && time.Now().Before(deadline); {
				time.Sleep(10 * time.Millisecond)
			}
			time.Sleep(200 * time.Millisecond) // for what should not come
			for i, want := range []int32{1, 0, 1, 1, 0} {
				if got := expired[i].Load(); got != want {
					t.Errorf("connection %d expired %d times, want %d", i, got, want)
				}
			}
		})
	}
}
