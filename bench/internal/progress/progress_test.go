package progress

import (
	"bytes"
	"testing"
)

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
