package table

import (
	"strings"
	"testing"
)

func TestNumbers(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -100: "-100", -1000: "-1,000"} {
		if got := Group(n); got != want {
			t.Errorf("Group(%d) = %s, want %s", n, got, want)
		}
	}
	for v, want := range map[float64]string{0: "0.00", 0.1234: "0.123", 1.234: "1.23", 12.34: "12.3", 123.4: "123", 12345: "12,345"} {
		if got := Figure(v); got != want {
			t.Errorf("Figure(%v) = %s, want %s", v, got, want)
		}
	}
}

func TestTable(t *testing.T) {
	table := Table{Title: "times", Columns: []string{"who", "µs"}}
	table.Add("ours", "12.5")
	table.AddWithRemark("a "+strings.Repeat("long ", 16)+"one", "theirs & co", "7")
	var out strings.Builder
	table.Write(&out)
	Entry(&out, "-name", "text", 10)
	Entry(&out, "-a-long-name", "text", 10)
	want := `times
  who            µs
  ours         12.5
  theirs & co     7
      a long long long long long long long long long long long long long long
      long long one
  -name   text
  -a-long-name
          text
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}
