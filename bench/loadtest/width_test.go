package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// A terminal has 80 columns. On most, what fills the last one is still one line.
const columns = 80

// wantNarrow checks that no line of text is wider than a terminal.
func wantNarrow(t *testing.T, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if n := utf8.RuneCountInString(line); n > columns {
			t.Errorf("%d columns: %q", n, line)
		}
	}
}

// large returns a report of ten million connections for which nothing went well.
func large(mode string) *report {
	cfg := testConfig()
	cfg.duration, cfg.Idle, cfg.Heartbeat = 20*time.Minute, 5*time.Minute+30*time.Second, 2*time.Minute+12500*time.Millisecond
	r := newReport(cfg)
	const million, ms = 1_000_000, 123456.789
	r.Mode, r.Conns, r.Seed, r.CPUs = mode, 10*million, 1<<64-1, 1024
	for k := range numKinds {
		r.Plan[k.String()] = 10 * million
	}
	r.Duration, r.Setup, r.Touches = 86399.9, 1234.5, 123_456*million
	r.TouchNS, r.HotNS, r.AllocsPerTouch, r.LoadedNS, r.BytesPerConn = 1234.56, 1234.56, 0.0001, 1234.56, 123.4567
	r.Expected, r.Closed, r.Early, r.EarliestMS = 10*million, 10*million, 10*million, ms
	r.Missed, r.WrongReason, r.Unaccounted, r.Draws = 10*million, 10*million, 10*million, 10*million
	r.Left, r.Live, r.Deferred = 10*million, 10*million, 10*million
	r.Late, r.Pause = late{ms, ms, ms}, pause{ms, ms}
	r.TrackerCPU, r.Passes, r.Looks, r.Relinks = 1024*100.123, 100*million, 1000*million, 1000*million
	r.Pings, r.Misses, r.Interrupted = 1000*million, 1000*million, true
	return r
}

func TestReportFitsATerminal(t *testing.T) {
	good := func(mode string) *report {
		r := large(mode)
		r.Early, r.Missed, r.WrongReason, r.Unaccounted = 0, 0, 0, 0
		return r
	}
	for name, r := range map[string]*report{
		"mock, fail": large("mock"), "mock, pass": good("mock"),
		"sockets, fail": large("sockets"), "sockets, pass": good("sockets"),
		"nothing": newReport(testConfig()),
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			r.Table(&out)
			wantNarrow(t, out.String())
			if r.Expected > 0 && !strings.Contains(out.String(), "10,000,000 pinged") { // in one piece
				t.Errorf("it does not say how many were pinged:\n%s", &out)
			}
		})
	}
}

// What a busy machine or many connections at once make late is told, and is no alarm.
func TestLatenessIsExplained(t *testing.T) {
	r := newReport(testConfig())
	r.Expected, r.Closed, r.Deferred = 1000, 1000, 200
	var out bytes.Buffer
	r.Table(&out)
	if text := out.String(); strings.Contains(text, "saturated") || !strings.Contains(text, "200 of 1,000") || !strings.Contains(text, "normal") {
		t.Errorf("it says\n%s", text)
	}
}

func TestProgressFitsATerminal(t *testing.T) {
	for _, s := range []progressLine{
		{elapsed: 20 * time.Second, duration: 20 * time.Second, live: "10,000,000", closed: 3_251_410, activities: 20 * 9_481_412, what: "touches", latest: 267*time.Millisecond + 312},
		{elapsed: 100 * time.Minute, duration: 100 * time.Minute, live: "10,000,000", closed: 10_000_000, activities: 1 << 40, what: "touches", latest: 61234 * time.Millisecond},
		{elapsed: 20 * time.Second, duration: 20 * time.Second, closed: 10_000_000, wrong: 10_000_000, activities: 1 << 40, what: "messages", latest: 61234 * time.Millisecond},
	} {
		if line := s.String(); utf8.RuneCountInString(line) >= columns || !strings.Contains(line, "closed") {
			t.Errorf("%d columns: %q", utf8.RuneCountInString(line), line)
		}
	}
}

func TestShort(t *testing.T) {
	for n, want := range map[float64]string{0: "0", 9999: "9999", 177354: "177k", 999_999: "1000k", 1_234_567: "1.2M", 9_960_000: "10M", 123e6: "123M"} {
		if got := short(n); got != want {
			t.Errorf("%v is written %s, not %s", n, got, want)
		}
	}
}
