package main

import (
	"bytes"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func TestStreamIsLeftOutByDefault(t *testing.T) {
	if slices.Contains(config{}.variants(), noStream) || !slices.Contains(config{stream: true}.variants(), noStream) {
		t.Errorf("without -stream: %v, with it: %v", config{}.variants(), config{stream: true}.variants())
	}
	if r := summarize("http", config{}, example()); r.Stream != nil {
		t.Errorf("a gain without a contender: %+v", *r.Stream)
	}
}

func TestStreamGain(t *testing.T) {
	all := append(example(), &contender{name: noStream, ops: []float64{90, 32, 100}, cpu: []float64{22, 40, 12}})
	r := summarize("http", config{}, all)
	if r.Stream == nil || r.Stream.OpsRatio != 1.1 || r.Stream.CPURatio != 0.5 {
		t.Fatalf("got %+v", r.Stream)
	}
	r.Stream.BytesPerConn = 168
	var table bytes.Buffer
	printTable(&table, []result{r})
	if want := "kernel.Stream, ours to no-stream: 1.100 times the requests/s -, 0.500 times the CPU a request -, 168 bytes more a connection\n"; !strings.Contains(table.String(), want) {
		t.Errorf("got\n%swant %s", table.String(), want)
	}
	var html bytes.Buffer
	if err := (report{Servers: []result{r}}).page().Write(&html); err != nil {
		t.Fatal(err)
	}
	if want := "168 bytes more a connection"; !strings.Contains(html.String(), want) {
		t.Errorf("the page has no %s", want)
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
