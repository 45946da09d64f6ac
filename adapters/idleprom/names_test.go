package idleprom

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestClean(t *testing.T) {
	for name, want := range map[string]string{
		"":                                  unnamed,
		"a":                                 "a",
		strings.Repeat("a", 200):            strings.Repeat("a", 128),
		strings.Repeat("a", 127) + "\u00e9": strings.Repeat("a", 127),
		strings.Repeat("\u20ac", 100):       strings.Repeat("\u20ac", 42),
		strings.Repeat("a\xff", 100):        strings.Repeat("a\ufffd", 32),
		"a\xff\xfe":                         "a\ufffd",
	} {
		got := clean(name)
		if got != want || len(got) > longestLabel || !utf8.ValidString(got) {
			t.Errorf("clean(%q) is %q, %d bytes; want %q", name, got, len(got), want)
		}
	}
}
