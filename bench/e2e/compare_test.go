package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/spread"
	"github.com/idlewheel/idlewheel/bench/internal/stats"
)

// example has three rounds, in the second of which the machine was slow.
func example() []*contender {
	return []*contender{
		{name: "bare", ops: []float64{100, 40, 110}, cpu: []float64{10, 20, 10}, switches: []float64{300, 290, 310}},
		{name: "own", ops: []float64{80, 20, 88}, cpu: []float64{20, 40, 20}, switches: []float64{300, 290, 310}},
		{name: "ours", ops: []float64{90, 40, 110}, cpu: []float64{11, 20, 12}, switches: []float64{1500, 1550, 1560}},
	}
}

// written returns the table of a server.
func written(r result) string {
	var out strings.Builder
	(&report{Servers: []result{r}}).Table(&out)
	return out.String()
}

func TestSummary(t *testing.T) {
	r := summarize("http", config{conns: 4, rounds: 3}, example())
	if r.Server != "http" || r.Conns != 4 || r.Rounds != 3 || len(r.Variants) != 3 {
		t.Fatalf("got %+v", r)
	}
	own, ours := r.Variants[1], r.Variants[2]
	if *own.RatioToBare != 0.8 || *own.RatioToOwn != 1 || *own.CPURatioToBare != 2 || *own.CPURatioToOwn != 1 {
		t.Errorf("own: %+v", own)
	}
	if want := (stats.Summary{Median: 90, Min: 40, Max: 110}); ours.OpsPerS != want {
		t.Errorf("ours: %v a second, want %v", ours.OpsPerS, want)
	}
	if *ours.RatioToBare != 1 || *ours.RatioToOwn != 1.25 || *ours.CPURatioToBare != 1.1 || *ours.CPURatioToOwn != 0.55 {
		t.Errorf("ours: of bare %v, of own %v, CPU %v and %v", *ours.RatioToBare, *ours.RatioToOwn, *ours.CPURatioToBare, *ours.CPURatioToOwn)
	}
	for _, v := range r.Variants {
		if v.RatioToBare95 == nil || v.RatioToOwn95 == nil || v.CPURatioToBare95 == nil || v.CPURatioToOwn95 == nil {
			t.Errorf("%s has a ratio without its interval", v.Name)
		}
	}
}

func TestNote(t *testing.T) {
	var c contender
	c.note([]turn{{opsPerS: 100, ops: 10, cpu: 30, switches: 5}, {opsPerS: 300, ops: 30, cpu: 50, switches: 15}})
	if c.ops[0] != 200 || c.cpu[0] != 2 || c.switches[0] != 100 {
		t.Errorf("%v a second, %v ns each, %v switches a second", c.ops, c.cpu, c.switches)
	}
}

func TestNoOwn(t *testing.T) {
	all := example()
	r := summarize("gnet", config{}, []*contender{all[0], all[2]})
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(b), "to_own") || !strings.Contains(string(b), `"cpu_ratio_to_bare":1.1`) {
		t.Errorf("got %s", b)
	}
	if text := written(r); !strings.Contains(text, "0.01  ~ 1.100 (") {
		t.Errorf("got\n%s", text)
	}
}

func TestSumUp(t *testing.T) {
	c := &crowd{Rounds: 2, Silent: 10, LimitMS: 2000, Waiting: 20, Active: 3}
	answers := spread.New()
	answers.Add(7 * time.Millisecond)
	c.sumUp([]*member{
		{name: "bare", bytes: []float64{1000, 1010}},
		{name: "own", bytes: []float64{1100, 1105}, lateMS: []float64{1, 2}, allMS: []float64{3, 5}, cpu: []float64{20, 22}, active: answers},
		{name: "ours", bytes: []float64{1200, 1212}, lateMS: []float64{4, 6}, allMS: []float64{10, 12}, cpu: []float64{10, 11}, active: answers, early: 1},
	})
	bare, ours := c.Variants[0], c.Variants[2]
	if bare.BytesPerConn != 1005 || bare.OverBare != 0 || bare.AllClosedMS != nil || bare.CPUToOwn != nil {
		t.Errorf("bare: %+v", bare)
	}
	if ours.OverBare != 201 || ours.OverBare95 == nil || *ours.CPUToOwn != 0.5 || ours.AllClosedMS.Median != 11 || ours.Early != 1 {
		t.Errorf("ours: %+v", ours)
	}
	r := summarize("net", config{conns: 4, rounds: 2}, example())
	r.Crowd = c
	text := written(r)
	for _, want := range []string{"10 real connections silent at once, limit 2 s; rounds: 2", "5.00  11.0 (to 12.0)", "7.00", "closed early: 1; never: 0", "0.500 (0.500 to 0.500)", "201 ("} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}

func TestStreamGain(t *testing.T) {
	all := append(example(), &contender{name: noStream, ops: []float64{90, 32, 100}, cpu: []float64{22, 40, 12}, switches: []float64{1, 1, 1}})
	r := summarize("http", config{}, all)
	if r.Stream == nil || *r.Stream.OpsRatio != 1.1 || *r.Stream.CPURatio != 0.5 || r.Stream.OpsRatio95 == nil {
		t.Fatalf("got %+v", r.Stream)
	}
	r.Stream.BytesPerConn = (&crowd{Variants: []crowdShare{{Name: "ours", BytesPerConn: 1168}, {Name: noStream, BytesPerConn: 1000}}}).bytesOver("ours", noStream)
	if text := written(r); !strings.Contains(text, "ours to no-stream: ~ 1.100 (") || !strings.Contains(text, "168 bytes more") {
		t.Errorf("got\n%s", text)
	}
}

// TestJSON has one object of all servers, and of one.
func TestJSON(t *testing.T) {
	for server, want := range map[string]string{"all": `"servers":[{"server":"http"`, "http": `},"server":"http"`} {
		r := &report{Servers: []result{summarize("http", config{conns: 4, rounds: 3}, example())}, cfg: config{server: server}}
		if text, err := json.Marshal(r); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: got %s, %v", server, text, err)
		}
	}
}
