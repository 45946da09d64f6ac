package node

import (
	"strings"
	"testing"
	"time"
)

func TestLimits(t *testing.T) {
	with := func(change func(*Limits)) Limits {
		l := DefaultLimits()
		change(&l)
		return l
	}
	for text, want := range map[string]Limits{
		"":                                 DefaultLimits(),
		"idle=1m":                          with(func(l *Limits) { l.Idle = time.Minute }),
		" write=2s  idle=1m30s":            with(func(l *Limits) { l.Write, l.Idle = 2*time.Second, 90*time.Second }),
		"handshake=1s idle=24h write=1.5s": {time.Second, 24 * time.Hour, 1500 * time.Millisecond},
	} {
		got, err := parseLimits(text)
		if err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
		if again, err := parseLimits(got.String()); err != nil || again != got {
			t.Errorf("%q: written as %q, and read as %v (%v)", text, got, again, err)
		}
	}
}

func TestInvalidLimits(t *testing.T) {
	for text, says := range map[string]string{
		"idle=-5s":              `idle is "-5s"`,
		"idle=soon":             `idle is "soon"`,
		"idle":                  `idle is ""`,
		"idle=30":               `idle is "30"`,
		"write=999ms":           `write is "999ms"; it must be a duration from 1s`,
		"handshake=25h":         `handshake is "25h"`,
		"idel=1s":               `"idel" is unknown`,
		"idle=1s idle=2s":       `"idle" is unknown, or set twice`,
		"write=2s handshake=0s": `handshake is "0s"`,
		`{"idle": "30s"}`:       `"{\"idle\":" is unknown`,
	} {
		if _, err := parseLimits(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v; want an error that says %s", text, err, says)
		}
	}
}
