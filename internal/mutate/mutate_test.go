package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFaultsApply sees to it that no fault of this module goes stale unnoticed. If it
// fails, mend the entry, or remove it if what it changes is gone.
func TestFaultsApply(t *testing.T) {
	var out bytes.Buffer
	ok, err := run(t.Context(), []string{"-check"}, &out)
	if err != nil || !ok {
		t.Errorf("some faults do not apply or compile (%v):\n%s", err, &out)
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

// TestRun has a module of its own with a fault of each kind.
func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a package several times")
	}
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"go.mod":             "module half\n\ngo 1.26\n",
		"half.go":            half,
		"elsewhere_plan9.go": "package half\n\nconst elsewhere = 1\n",
		"half_test.go": `package half

import "testing"

func TestHalf(t *testing.T) {
	if got := Half(4); got != 2 {
		t.Error(got)
	}
}
`,
		"testdata/faults.txt": `tests: ./

half.go two: does not compile
- 2
+ "2"()

half.go two: is not there
- 4

half.go Half: is caught
- (n + 1) / 2
+ n + 1

half.go Half: hangs
+ for n != 0 {}
tests: ./ -timeout=1s

half.go Half: survives
- n + 1
+ n

half.go Half: survives as it should
- n + 1
+ n
survives: nobody asks

half.go Half: is caught and should not be
- n + 1
+ n + 2
survives: nobody asks

elsewhere_plan9.go elsewhere: is not compiled here
- 1
+ 2
`,
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		fault string // a part of its name
		ok    bool
		want  string
	}{
		{"does not compile", false, "stale      half.go two: does not compile"},
		{"is not there", false, "the code to change occurs 0 times"},
		{"is caught$", true, "by TestHalf of ./"},
		{"hangs", true, "by a hang of ./"},
		{"survives$", false, "SURVIVES   half.go Half: survives"},
		{"survives as it should", true, "survives   half.go Half: survives as it should"},
		{"is caught and should not be", false, "CAUGHT     half.go Half: is caught and should not be"},
		{"is not compiled here", true, "1 are in files for other systems"},
	} {
		t.Run(c.fault, func(t *testing.T) {
			var out bytes.Buffer
			ok, err := run(t.Context(), []string{"-run", c.fault}, &out)
			if err != nil || ok != c.ok || !strings.Contains(out.String(), c.want) {
				t.Errorf("ok is %v (%v), want %v; want %q in\n%s", ok, err, c.ok, c.want, &out)
			}
		})
	}
}
