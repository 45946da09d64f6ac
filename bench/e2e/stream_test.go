package main

import (
	"runtime"
	"slices"
	"strings"
	"testing"
)

func TestStreamIsLeftOutByDefault(t *testing.T) {
	without, with := (&config{}).variants("http"), (&config{stream: true}).variants("http")
	if slices.Contains(without, noStream) || !slices.Contains(with, noStream) {
		t.Errorf("without -stream: %v, with it: %v", without, with)
	}
	if r := summarize("http", config{}, example()); r.Stream != nil {
		t.Errorf("a gain without a contender: %+v", *r.Stream)
	}
}

func TestStreamGain(t *testing.T) {
	all := append(example(), &contender{name: noStream, ops: []float64{90, 32, 100}, cpu: []float64{22, 40, 12}})
	r := summarize("http", config{}, all)
	if r.Stream == nil || r.Stream.OpsRatio != 1.1 || r.Stream.CPURatio != 0.5 || r.Stream.OpsRatio95 == nil {
		t.Fatalf("got %+v", r.Stream)
	}
	r.Stream.BytesPerConn = 168
	page := (&report{Servers: []result{r}}).page()
	for _, text := range []string{written(r), page.Facts[len(page.Facts)-1].Value} {
		if !strings.Contains(text, "kernel.Stream, ours to no-stream: ~ 1.100 (") || !strings.Contains(text, "168 bytes more") {
			t.Errorf("got\n%s", text)
		}
	}
}

// It takes more than nothing, so the contender without it is without it.
func TestStreamBytes(t *testing.T) {
	n, err := streamBytes()
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS == "linux" && runtime.GOARCH == "amd64" && (n < 64 || n > 512) {
		t.Errorf("kernel.Stream takes %d bytes a connection", n)
	}
}
