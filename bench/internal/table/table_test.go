package table

import (
	"strings"
	"testing"
)

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
