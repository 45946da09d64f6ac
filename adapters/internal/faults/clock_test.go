package faults

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What makes or reads a time by the wall clock, or takes the monotonic reading
// from one.
var byWallClock = []string{
	"Unix", "UnixMilli", "UnixMicro", "UnixNano", "Date", "Parse", "ParseInLocation",
	"Round", "UTC", "Local", "In", "AddDate", "GobEncode", "MarshalBinary", "MarshalJSON",
}

// exempt are deadlines that have passed by any clock, and those that are a signal
// from a server, which may be set as a deadline just as well. A metric tells when something was, which nothing is compared with.
var exempt = []string{"netconn/deadlines.go: Unix", "idlehttp/http2.go: Unix", "httpconn/conn.go: Unix", "idle/engine_driver.go: In", "idleprom/source.go: UnixMilli"}

// Wall-clock changes do not matter, because nothing but readings with a monotonic
// part is compared: the packages have no use for the functions of package time
// that are about the wall clock.
func TestNothingReadsTheWallClock(t *testing.T) {
	for _, dir := range []string{"idle", "wheel", "adapters"} {
		root := filepath.Join("..", "..", "..", dir)
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			return checkFile(t, path)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func checkFile(t *testing.T, path string) error {
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, path, nil, 0)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(f.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"time"` }) {
		return nil
	}
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if s, ok := call.Fun.(*ast.SelectorExpr); ok && slices.Contains(byWallClock, s.Sel.Name) {
			where := filepath.ToSlash(path) + ": " + s.Sel.Name
			if !slices.ContainsFunc(exempt, func(e string) bool { return strings.HasSuffix(where, e) }) {
				t.Errorf("%v uses %s: by the wall clock?", files.Position(call.Pos()), s.Sel.Name)
			}
		}
		return true
	})
	return nil
}
