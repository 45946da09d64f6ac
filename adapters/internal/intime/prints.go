package intime

import (
	"io"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

// Prints runs an example whose output depends on a real clock, so that go test doesn't run it, and
// compares what it prints with the comment "Prints:" at its end.
func Prints(t *testing.T, example func()) {
	t.Helper()
	f := runtime.FuncForPC(reflect.ValueOf(example).Pointer())
	name := f.Name()[strings.LastIndex(f.Name(), ".")+1:]
	file, _ := f.FileLine(f.Entry())
	source, err := os.ReadFile(filepath.Base(file))
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(source), "\nfunc "+name+"() {\n")
	body, _, _ = strings.Cut(body, "\n}\n")
	_, comment, ok := strings.Cut(body, "// Prints:")
	if !ok {
		t.Fatal(name, " has no comment that says what it prints")
	}
	want := strings.TrimSpace(strings.ReplaceAll("\n"+comment, "\n\t//", "\n"))

	stdout := os.Stdout
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	os.Stdout = w
	printed := make(chan string)
	go func() {
		b, _ := io.ReadAll(r)
		printed <- string(b)
	}()
	example()
	os.Stdout = stdout
	w.Close()
	if got := trim(<-printed); got != trim(want) {
		t.Errorf("%s printed\n%s\nwant\n%s", name, got, trim(want))
	}
}

// trim removes white space around each line, as go test does around the whole output.
func trim(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, "\n")
}
