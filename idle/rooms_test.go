package idle

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The files of this package are in rooms, which their names begin with: conn, engine, control
// and stats. All other files are what users and adapters see first. These uses of one room by another are
// not allowed.
var closed = map[string]struct {
	to     string
	except []string // names that may be used all the same
}{
	"conn":           {to: "control"},
	"stats":          {to: "control"}, // who looks on changes nothing
	"engine_place":   {to: "stats", except: []string{"EarlyReschedules"}},
	"engine_mailbox": {to: "stats"},
}

// TestRooms looks for uses that are not allowed.
func TestRooms(t *testing.T) {
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	fset, files := token.NewFileSet(), []*ast.File(nil)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: nobodyElse{}, Error: func(error) {}} // what others declare does not matter
	pkg, _ := conf.Check("idle", fset, files, info)
	fileOf := func(pos token.Pos) string { return strings.TrimSuffix(fset.Position(pos).Filename, ".go") }
	used := 0
	for id, obj := range info.Uses {
		if obj.Pkg() != pkg {
			continue
		}
		used++
		from, to := fileOf(id.Pos()), fileOf(obj.Pos())
		for _, place := range []string{from, roomOf(from)} {
			c, ok := closed[place]
			if ok && roomOf(to) == c.to && roomOf(from) != roomOf(to) && !slices.Contains(c.except, obj.Name()) {
				t.Errorf("%s.go uses %s of %s.go; %s must not use %s", from, obj.Name(), to, place, c.to)
			}
		}
	}
	if used < 1000 {
		t.Errorf("only %d uses were found", used)
	}
}

// roomOf returns the room that a file is in, or "" if it has none.
func roomOf(file string) string {
	for _, r := range []string{"conn", "engine", "control", "stats"} {
		if file == r || strings.HasPrefix(file, r+"_") {
			return r
		}
	}
	return ""
}

// nobodyElse is an importer that has no packages.
type nobodyElse struct{}

func (nobodyElse) Import(path string) (*types.Package, error) { return nil, errors.New("not needed") }
