package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// example has three rounds, in the second of which the machine was slow.
func example() []*contender {
	return []*contender{
		{name: "bare", ops: []float64{100, 40, 110}, cpu: []float64{10, 20, 10}},
		{name: "own", ops: []float64{80, 20, 88}, cpu: []float64{20, 40, 20}},
		{name: "ours", ops: []float64{90, 40, 110}, cpu: []float64{11, 20, 12}},
	}
}

func TestSummary(t *testing.T) {
	r := summarize("http", config{conns: 4, rounds: 3}, example())
	if r.Server != "http" || r.Conns != 4 || r.Rounds != 3 || len(r.Variants) != 3 {
		t.Fatalf("got %+v", r)
	}
	own, ours := r.Variants[1], r.Variants[2]
	if own.RatioToBare != 0.8 || *own.RatioToOwn != 1 || own.CPURatioToBare != 2 || *own.CPURatioToOwn != 1 {
		t.Errorf("own: %+v", own)
	}
	if want := (summary{90, 40, 110}); ours.OpsPerS != want {
		t.Errorf("ours: %v a second, want %v", ours.OpsPerS, want)
	}
	if want := (summary{1, 0.9, 1}); ours.RatioToBare != 1 || ours.RatioSpread != want {
		t.Errorf("ours: ratio %v, spread %v, want %v", ours.RatioToBare, ours.RatioSpread, want)
	}
	if *ours.RatioToOwn != 1.25 || ours.CPURatioToBare != 1.1 || *ours.CPURatioToOwn != 0.55 {
		t.Errorf("ours: of own %v, CPU %v and %v", *ours.RatioToOwn, ours.CPURatioToBare, *ours.CPURatioToOwn)
	}
}

func TestNote(t *testing.T) {
	var c contender
	c.note([]turn{{opsPerS: 100, ops: 10, cpu: 30}, {opsPerS: 300, ops: 30, cpu: 50}})
	if c.ops[0] != 200 || c.cpu[0] != 2 {
		t.Errorf("%v a second, %v ns each", c.ops, c.cpu)
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
	var table bytes.Buffer
	printTable(&table, []result{r})
	if !strings.Contains(table.String(), "12 ns     1.100         -") {
		t.Errorf("got\n%s", table.String())
	}
}

func TestMedian(t *testing.T) {
	if got, want := summarizeOne([]float64{4, 1, 3, 2}), (summary{2.5, 1, 4}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestConfidence(t *testing.T) {
	if got := confidence([]float64{1, 2, 3}); got != nil {
		t.Errorf("three values tell %v", *got)
	}
	var values []float64
	for i := range 15 {
		values = append(values, float64(i))
	}
	if got := confidence(values); got == nil || *got != [2]float64{3, 11} { // the 4th and the 12th of 15, by the binomial
		t.Errorf("got %v", got)
	}
}
