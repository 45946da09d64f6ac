//go:build ignore

// Clocks refuses a test that combines a socket, or another process, with a clock: a busy machine
// can fail it. Such a test belongs in a file with the build tag proof, or in smoke_test.go. A test
// may wait for an event with patience (two minutes), and inside a bubble of synctest time is
// virtual.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

var (
	socket = regexp.MustCompile(`^(net\.(Listen|Dial).*|tls\.(Listen|Dial).*|httptest\.New.*Server|gnet\.(Run|Rotate|NewClient)|exec\.Command.*|(syscall|unix)\.Socket.*)$`)
	clock  = regexp.MustCompile(`^(time\.(Sleep|After|AfterFunc|NewTimer|NewTicker|Tick|Since|Now|Until)|context\.With(Timeout|Deadline))$`)
)

// A function is a function of a package's untagged test files. Methods of one name are one function.
type function struct {
	sockets, clocks []string // where
	calls           []string // functions of the package
	runs            bool     // it's a test, or an example whose output is compared
}

func main() {
	packages := map[string][]*ast.File{}
	fset := token.NewFileSet()
	filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if strings.HasSuffix(path, "_test.go") && filepath.Base(path) != "smoke_test.go" {
			file, err := parser.ParseFile(fset, path, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
			if !tagged(file) {
				name := filepath.Dir(path) + ": package " + file.Name.Name
				packages[name] = append(packages[name], file)
			}
		}
		return err
	})
	refused := false
	for name, files := range packages {
		functions := map[string]*function{}
		for virtual := map[string]bool{"synctest.Test": true}; ; {
			known := len(virtual)
			for _, file := range files {
				for _, d := range file.Decls {
					if d, ok := d.(*ast.FuncDecl); ok && d.Body != nil {
						note(fset, file, d, functions, virtual)
					}
				}
			}
			if len(virtual) == known {
				break
			}
			clear(functions)
		}
		for test, f := range functions {
			if !f.runs {
				continue
			}
			all := reached(functions, test, map[string]bool{}, &function{})
			if len(all.sockets) > 0 && len(all.clocks) > 0 {
				fmt.Printf("%s: %s combines a socket (%s) with a clock (%s)\n", name, test, all.sockets[0], all.clocks[0])
				refused = true
			}
		}
	}
	if refused {
		fmt.Println("use virtual time, or move it to a file with //go:build proof")
		os.Exit(1)
	}
}

// imports returns the names of the packages that file imports.
func imports(file *ast.File) map[string]bool {
	names := map[string]bool{}
	for _, i := range file.Imports {
		name := path.Base(strings.Trim(i.Path.Value, `"`))
		if i.Name != nil {
			name = i.Name.Name
		}
		names[name] = true
	}
	return names
}

func tagged(file *ast.File) bool {
	for _, c := range file.Comments {
		if c.Pos() < file.Package && strings.Contains(c.List[0].Text, "//go:build") && strings.Contains(c.List[0].Text, "proof") {
			return true
		}
	}
	return false
}

// note adds what d does to the functions. A function that passes on a function of its own to a
// virtual one is virtual itself.
func note(fset *token.FileSet, file *ast.File, d *ast.FuncDecl, functions map[string]*function, virtual map[string]bool) {
	f := functions[d.Name.Name]
	if f == nil {
		f = &function{}
		functions[d.Name.Name] = f
	}
	f.runs = strings.HasPrefix(d.Name.Name, "Test") && d.Name.Name != "TestMain"
	for _, c := range file.Comments {
		if strings.HasPrefix(d.Name.Name, "Example") && d.Pos() < c.Pos() && c.Pos() < d.End() {
			f.runs = f.runs || strings.HasPrefix(c.Text(), "Output:")
		}
	}
	imported := imports(file)
	ast.Inspect(d.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			name := nameOf(n.Fun)
			at := fset.Position(n.Pos()).String()
			switch {
			case virtual[name]:
				if d.Recv == nil {
					for _, param := range d.Type.Params.List {
						if _, ok := param.Type.(*ast.FuncType); ok {
							virtual[d.Name.Name] = true
						}
					}
				}
				return false
			case socket.MatchString(name):
				f.sockets = append(f.sockets, at)
			case clock.MatchString(name) && !patient(n):
				f.clocks = append(f.clocks, at)
			}
		case *ast.SelectorExpr:
			// What another package exports isn't a function of this one.
			if x, ok := n.X.(*ast.Ident); ok && imported[x.Name] {
				return false
			}
		case *ast.Ident:
			f.calls = append(f.calls, n.Name)
		}
		return true
	})
}

// patient reports whether the call's duration is the patience of tests.
func patient(c *ast.CallExpr) (ok bool) {
	for _, arg := range c.Args {
		ast.Inspect(arg, func(n ast.Node) bool {
			id, is := n.(*ast.Ident)
			ok = ok || is && strings.EqualFold(id.Name, "patience")
			return true
		})
	}
	return ok
}

func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		if x, ok := e.X.(*ast.Ident); ok {
			return x.Name + "." + e.Sel.Name
		}
	}
	return ""
}

func reached(functions map[string]*function, name string, seen map[string]bool, all *function) *function {
	f := functions[name]
	if f == nil || seen[name] {
		return all
	}
	seen[name] = true
	all.sockets, all.clocks = append(all.sockets, f.sockets...), append(all.clocks, f.clocks...)
	for _, called := range f.calls {
		reached(functions, called, seen, all)
	}
	return all
}
