//go:build linux

package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/idlewheel/idlewheel/bench/internal/child"
	"github.com/idlewheel/idlewheel/bench/internal/program"
)

// TestMain lets the test's binary be the server.
func TestMain(m *testing.M) {
	child.Main(roles())
	os.Exit(m.Run())
}

func TestWrongFlags(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"-server iis", `-server is "iis"`},
		{"-rounds 0", "-rounds is 0"},
		{"-idle 2h", "-idle is 2h0m0s"},
		{"-silent 99999", "-silent is 99999, which takes"},
	} {
		var out, errs bytes.Buffer
		if status := newProgram().Invoke(t.Context(), strings.Fields(c.args), &out, &errs); status != program.Trouble || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%s: status %d, %s; want %q", c.args, status, &errs, c.want)
		}
	}
}

// TestSummary sums up three rounds. In the second round, the machine was slow.
func TestSummary(t *testing.T) {
	gnet := []*measure{{Name: "bare", ops: []float64{100, 40, 110}, cpu: []float64{10, 20, 10}, switches: []float64{300, 290, 310}}}
	if summarize(gnet); gnet[0].CPUToOwn != nil {
		t.Errorf("gnet has no timeouts of its own: %+v", gnet[0])
	}
	all := append(gnet,
		&measure{Name: "own", ops: []float64{80, 20, 88}, cpu: []float64{20, 40, 20}, switches: []float64{300, 290, 310}},
		&measure{Name: "ours", ops: []float64{90, 40}, cpu: []float64{11, 20}, switches: []float64{1500, 1550}})
	all[2].note(turn{opsPerS: 5 * 110, ops: 40, cpu: 40 * 12, switches: 20})
	summarize(all)
	own, ours := all[1], all[2]
	if own.OpsToBare.Median != 0.8 || own.CPUToBare.Median != 2 || own.CPUToOwn.Median != 1 {
		t.Errorf("own: %+v", own)
	}
	if ours.OpsPerS != 90 || ours.OpsToBare.Median != 1 || ours.CPUToBare.Median != 1.1 || ours.CPUToOwn.Median != 0.55 || ours.switches[2] != 55 {
		t.Errorf("ours: %+v", ours)
	}

	c := &crowd{Rounds: 2, Silent: 10, LimitMS: 2000, Waiting: 20, Variants: []*crowdShare{
		{Name: "bare", bytes: []float64{1000, 1010}},
		{Name: "own", bytes: []float64{1100, 1105}, lateMS: []float64{1, 2}, allMS: []float64{3, 5}, cpu: []float64{20, 22}},
		{Name: "ours", bytes: []float64{1200, 1212}, lateMS: []float64{4, 6}, allMS: []float64{10, 12}, cpu: []float64{10, 11}, Early: 1},
	}}
	c.sumUp()
	if v := c.Variants[2]; v.OverBare != 201 || v.CPUToOwn.Median != 0.5 || v.AllClosedMS != 11 || v.LateMS != 5 || v.Early != 1 {
		t.Errorf("ours: %+v", v)
	}
	var out strings.Builder
	(&report{Servers: []result{{Server: "net", Variants: all, Crowd: c}}}).Table(&out)
	for _, want := range []string{"10 fall silent together, limit 2 s", "1 too early, 0 never", "201 (", "~ 1.100 ("} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, &out)
		}
	}
}

// TestClosedTwice tells a herd of one end twice: the kernel reports it when the server closes a
// connection, and may report it again when it gives the connection up.
func TestClosedTwice(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[0])
	fd := int32(pair[0])
	h := &herd{epollLoad: &epollLoad{due: make([]int, fd+1)}, left: 2, ends: make([]time.Time, fd+1)}
	h.due[fd] = 1 << 30
	unix.Write(pair[1], []byte("ping"))
	if err := h.hearSilent(fd); err != nil || h.left != 2 {
		t.Errorf("after a ping %d are left, %v", h.left, err)
	}
	unix.Close(pair[1])
	for range 2 {
		if err := h.hearSilent(fd); err != nil || h.left != 1 || h.ends[fd].IsZero() {
			t.Errorf("after an end %d are left, closed at %v, %v", h.left, h.ends[fd], err)
		}
	}
}
