package progress

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

// On a terminal every line covers the one before, however narrow the terminal is.
func TestLineOverwritesItself(t *testing.T) {
	var out bytes.Buffer
	p := &Progress{out: &out, terminal: true, columns: func() int { return 20 }}
	p.Say("%s", strings.Repeat("µ", 50))
	p.Say("short")
	p.Clear()
	text := out.String()
	if strings.Contains(text, "\n") {
		t.Errorf("a line ends: %q", text)
	}
	lines := strings.Split(text, "\r")[1:]
	for _, line := range lines {
		if n := utf8.RuneCountInString(line); n >= 20 {
			t.Errorf("%d columns of 20: %q", n, line)
		}
	}
	if want := "short" + strings.Repeat(" ", 14); len(lines) < 2 || lines[1] != want {
		t.Errorf("what was written before is still seen: %q", lines)
	}
}

func TestOffATerminal(t *testing.T) {
	for value, want := range map[string]string{"auto": "", "false": "", "true": "line 1\n"} {
		var f Flag
		if err := f.Set(value); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		p := New(&out, f)
		p.Say("line %d", 1)
		p.Clear()
		if out.String() != want || f.String() != value {
			t.Errorf("%s: got %q, want %q", value, out.String(), want)
		}
	}
	if err := new(Flag).Set("often"); err == nil {
		t.Error("often is taken for a value")
	}
}
