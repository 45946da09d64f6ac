package table

import (
	"strings"
	"testing"
)

func TestGroup(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -100: "-100", -1000: "-1,000"} {
		if got := Group(n); got != want {
			t.Errorf("Group(%d) = %s, want %s", n, got, want)
		}
	}
}

func TestFigure(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0.00", 0.0123: "0.012", 1.234: "1.23", 12.34: "12.3", 123.4: "123", 1234.5: "1,235", -3.21: "-3.21", -1234.5: "-1,235",
	} {
		if got := Figure(v); got != want {
			t.Errorf("Figure(%v) = %s, want %s", v, got, want)
		}
	}
}

func TestWrap(t *testing.T) {
	for text, want := range map[string]string{
		"short":                        "short",
		"one, two three, four":         "one, two|three, four",
		"a b c d e f g":                "a b c d e f|g",
		"onelongwordthatfitsnowhere":   "onelongwordthatfitsnowhere",
		"aaaaaa, bbbbbbbbbbbb":         "aaaaaa,|bbbbbbbbbbbb",
		"1, 22222222; 3 4 5 6 7 8 9 0": "1, 22222222;|3 4 5 6 7 8|9 0",
	} {
		if got := strings.Join(Wrap(text, 12), "|"); got != want {
			t.Errorf("%q becomes %q, not %q", text, got, want)
		}
	}
}

func TestTable(t *testing.T) {
	table := Table{Title: "times", Columns: append(Columns("who", "µs"), Column{Name: "note", Text: true, Below: true})}
	table.Add("ours", "12.5", "")
	table.Add("theirs & co", "7", "a "+strings.Repeat("long ", 16)+"one")
	var out strings.Builder
	table.Write(&out)
	want := `times
  who            µs
  ours         12.5
  theirs & co     7
      a long long long long long long long long long long long long long long
      long long one
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestEntry(t *testing.T) {
	var out strings.Builder
	Entry(&out, "-name", "text", 10)
	Entry(&out, "-a-long-name", "text", 10)
	if want := "  -name   text\n  -a-long-name\n          text\n"; out.String() != want {
		t.Errorf("got\n%s", out.String())
	}
}
