package mutate

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// root is the directory of the repository.
const root = "../../.."

// TestFaultsApply sees to it that no fault goes stale unnoticed. If it fails, mend the entry,
// or remove it if what it changes is gone.
func TestFaultsApply(t *testing.T) {
	all, err := load(root)
	if err != nil || len(all) < 800 {
		t.Fatalf("%d faults: %v", len(all), err)
	}
	for _, f := range all {
		src, err := os.ReadFile(filepath.Join(root, f.dir, f.file))
		if err == nil {
			src, err = apply(&f, src)
		}
		if err == nil {
			_, err = parser.ParseFile(token.NewFileSet(), f.file, src, parser.SkipObjectResolution)
		}
		if err != nil {
			t.Errorf("%s: %s: %v", f.where, f.name(), err)
		}
	}
}

// half is a file that faults are planted in.
const half = `package half

// Half returns half of n, rounded up.
func Half(n int) int {
	if n < 0 { // what is negative has no half
		return 0
	}
	return (n + 1) / 2
}

type T struct{}

func (T) Half() int { return Half(2) }

func (T) Third() int { return 3 }

const two, three = 2, 3
`

func TestApply(t *testing.T) {
	for _, c := range []struct {
		name, decl, old, new string
		want                 string // what half has then; empty if the fault is stale
	}{
		{"a part of a line", "T.Half", "2", "4", "return Half(4)"},
		{"white space and comments do not matter", "Half", "if n<0 {\nreturn 0\n}\nreturn", "return", "int {\n\treturn (n + 1)"},
		{"insert", "T.Half", "", "return 7", "{\nreturn 7"},
		{"a constant", "three", "3", "4", "two, three = 2, 4"},
		{"a method by its name", "Third", "3", "4", "return 4"},
		{"not there", "T.Half", "8", "4", ""},
		{"twice", "Half", "n", "4", ""},
		{"a part of a token", "Third", "ret", "", ""},
		{"no such declaration", "None", "2", "4", ""},
		{"an insertion into a constant", "two", "", "4", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := apply(&fault{decl: c.decl, edits: []edit{{c.old, c.new}}}, []byte(half))
			switch {
			case c.want == "" && err == nil:
				t.Errorf("applied, and gave\n%s", got)
			case c.want != "" && err != nil:
				t.Error(err)
			case !strings.Contains(string(got), c.want):
				t.Errorf("got\n%s\nwithout %q", got, c.want)
			}
		})
	}
}

func TestParse(t *testing.T) {
	faults, err := parse(strings.NewReader(`# about
tests: ./a -run=X

f.go F: is wrong
- a
- b
+ c
- d
survives: as nobody
  looks
# not here
tests: ./b

f.go F: does nothing
+ return
`), "dir")
	if err != nil {
		t.Fatal(err)
	}
	if len(faults) != 2 {
		t.Fatalf("%d faults, want 2: %+v", len(faults), faults)
	}
	first, second := faults[0], faults[1]
	if first.name() != "dir/f.go F: is wrong" || first.survives != "as nobody looks" || len(first.edits) != 2 ||
		first.edits[0] != (edit{"a\nb\n", "c\n"}) || first.edits[1] != (edit{"d\n", ""}) || first.tests[0] != "./b" {
		t.Errorf("the first fault is %+v", first)
	}
	if second.edits[0] != (edit{"", "return\n"}) || len(second.tests) != 2 || second.survives != "" {
		t.Errorf("the second fault is %+v", second)
	}
	for _, bad := range []string{
		"what is this",
		"tests: ./a\n\nf.go F: no change",
		"f.go F: no tests\n- a",
		"tests: ./a\n\nf.go F: same\n- a\n\nf.go F: same\n- b",
		"tests: ./a\n\nf.go F: x\n- a\nwhat is this",
	} {
		if _, err := parse(strings.NewReader(bad), "dir"); err == nil {
			t.Errorf("no error for %q", bad)
		}
	}
}
