package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// A mutant is a fault and the file that has it.
type mutant struct {
	fault
	path string // of the file that it takes the place of
	src  []byte
}

// checkAll plants each fault by itself, and reports those that are stale. It returns
// the others, but those in files that this system does not compile.
func checkAll(ctx context.Context, root string, faults []fault, out io.Writer) (good []mutant, ok bool, err error) {
	c, err := newChecker(ctx, root, faults)
	if err != nil {
		return nil, false, err
	}
	ok = true
	elsewhere := 0
	for _, f := range faults {
		m, err := c.check(f)
		switch {
		case errors.Is(err, errElsewhere):
			elsewhere++
		case err != nil:
			ok = false
			fmt.Fprintf(out, "stale      %s\n           %s: %v\n", f.name(), f.where, err)
		default:
			good = append(good, m)
		}
	}
	fmt.Fprintf(out, "%d faults: %d apply and compile, %d do not, %d are in files for other systems\n",
		len(faults), len(good), len(faults)-len(good)-elsewhere, elsewhere)
	return good, ok, nil
}

// checker type-checks packages with a fault in one file.
type checker struct {
	root     string
	fset     *token.FileSet
	importer types.Importer
	packages map[string]*listed // by directory
	parsed   map[string]*ast.File
}

// listed is what go list says of a package.
type listed struct {
	Dir, ImportPath, Export string
	GoFiles                 []string
}

func newChecker(ctx context.Context, root string, faults []fault) (*checker, error) {
	packages := map[string][]string{} // by module
	for _, f := range faults {
		if module, pkg := moduleOf(root, f.dir); !slices.Contains(packages[module], pkg) {
			packages[module] = append(packages[module], pkg)
		}
	}
	c := &checker{root: root, fset: token.NewFileSet(), packages: map[string]*listed{}, parsed: map[string]*ast.File{}}
	exports := map[string]string{}
	for module, pkgs := range packages {
		if err := c.list(ctx, module, pkgs, exports); err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
	}
	c.importer = importer.ForCompiler(c.fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	return c, nil
}

// list adds what go list says of packages of a module, and of what these import.
func (c *checker) list(ctx context.Context, module string, pkgs []string, exports map[string]string) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"list", "-deps", "-export", "-json=Dir,ImportPath,Export,GoFiles"}, pkgs...)...)
	cmd.Dir, cmd.Stderr = module, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var p listed
		if err := d.Decode(&p); err != nil {
			return err
		}
		c.packages[p.Dir] = &p
		exports[p.ImportPath] = p.Export
	}
	return nil
}

// moduleOf returns the directory of the module that the package in root/dir is in, and the package
// as the go command names it there. Some packages are in modules of their own.
func moduleOf(root, dir string) (module, pkg string) {
	dir = path.Clean(dir)
	for parent := dir; parent != "."; parent = path.Dir(parent) {
		module = filepath.Join(root, filepath.FromSlash(parent))
		if _, err := os.Stat(filepath.Join(module, "go.mod")); err == nil {
			return module, "." + strings.TrimPrefix(dir, parent)
		}
	}
	return root, "./" + dir
}

// errElsewhere says that a file is not compiled on this system.
var errElsewhere = errors.New("the file is for other systems")

// check plants f.
func (c *checker) check(f fault) (mutant, error) {
	m := mutant{fault: f, path: filepath.Join(c.root, filepath.FromSlash(f.dir), f.file)}
	src, err := os.ReadFile(m.path)
	if err != nil {
		return m, err
	}
	if m.src, err = apply(&f, src); err != nil {
		return m, err
	}
	if here, err := build.Default.MatchFile(filepath.Dir(m.path), f.file); err != nil || !here {
		return m, errors.Join(err, errElsewhere)
	}
	return m, c.compile(m)
}

// compile type-checks the package of m.
func (c *checker) compile(m mutant) error {
	p := c.packages[filepath.Dir(m.path)]
	if p == nil {
		return fmt.Errorf("there is no package in %s", m.dir)
	}
	file, err := parser.ParseFile(c.fset, m.path, m.src, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	files := []*ast.File{file}
	for _, name := range p.GoFiles {
		path := filepath.Join(p.Dir, name)
		if path == m.path {
			continue
		}
		if c.parsed[path] == nil {
			if c.parsed[path], err = parser.ParseFile(c.fset, path, nil, parser.SkipObjectResolution); err != nil {
				return err
			}
		}
		files = append(files, c.parsed[path])
	}
	config := types.Config{Importer: c.importer}
	_, err = config.Check(p.ImportPath, c.fset, files, nil)
	return err
}
