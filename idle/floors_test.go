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

// floors are the files of this package. Each uses only what stands in those before it,
// so that a reader who begins at the end walks down, and never back. Files that are in one
// string may use each other.
var floors = []string{
	"doc", "policy", "reason", "moment", "end", "options", "limit", "timeout", "validate", "tick",
	"words", "deadline", "forecast", "histogram", "stats", "phase", "hooks", "callbacks",
	"entry", "parting", "ends", "pace", "quota", "capacity",
	"connset place conn keys wait job order walk shard judge obey pass queue operation work room shutdown retire tracker", // connections and their shards
	"info", "census", "replace", "drain", "shed", "driver", "new",
}

// TestFloors looks for arrows between files that run back.
func TestFloors(t *testing.T) {
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	fset, files := token.NewFileSet(), []*ast.File(nil)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		if floorOf(name) < 0 {
			t.Errorf("%s has no floor", name)
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
	back, used := map[string][]string{}, 0
	for id, obj := range info.Uses {
		if obj.Pkg() != pkg {
			continue
		}
		from, to := floorOf(fset.Position(id.Pos()).Filename), floorOf(fset.Position(obj.Pos()).Filename)
		if used++; to <= from {
			continue
		}
		arrow := floors[from] + " -> " + floors[to]
		if !slices.Contains(back[arrow], obj.Name()) {
			back[arrow] = append(back[arrow], obj.Name())
		}
	}
	if used < 1000 {
		t.Errorf("only %d names were resolved", used)
	}
	for arrow, names := range back {
		t.Errorf("%s: %v", arrow, names)
	}
}

// floorOf returns the floor of a file, or -1.
func floorOf(file string) int {
	return slices.IndexFunc(floors, func(floor string) bool {
		return slices.Contains(strings.Fields(floor), strings.TrimSuffix(file, ".go"))
	})
}

type nobodyElse struct{}

func (nobodyElse) Import(string) (*types.Package, error) { return nil, errors.New("not needed") }
