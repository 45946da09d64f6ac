package mutate

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"strings"
)

// apply returns src, a file, with the fault in it.
func apply(f *fault, src []byte) ([]byte, error) {
	for _, e := range f.edits {
		// The file is parsed for each edit, as those before have moved what follows.
		in, err := find(src, f.decl)
		if err != nil {
			return nil, err
		}
		if e.old == "" {
			if in.body == 0 {
				return nil, fmt.Errorf("%s is no function with a body to insert code into", f.decl)
			}
			src = splice(src, in.body, in.body, "\n"+e.new)
			continue
		}
		from, to, err := locate(src[in.begin:in.end], []byte(e.old))
		if err != nil {
			return nil, fmt.Errorf("in %s: %w", f.decl, err)
		}
		src = splice(src, in.begin+from, in.begin+to, strings.TrimSuffix(e.new, "\n"))
	}
	return src, nil
}

func splice(src []byte, from, to int, text string) []byte {
	out := append([]byte(nil), src[:from]...)
	out = append(out, text...)
	return append(out, src[to:]...)
}

// A place is where a declaration is in a file.
type place struct {
	begin, end int
	body       int // where the body of a function begins, after the brace; 0 if there is none
}

// find returns the place of the declaration in src. A method is known by Type.name, or
// by its name alone if there is no other declaration of that name.
func find(src []byte, decl string) (place, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "", src, parser.SkipObjectResolution)
	if err != nil {
		return place{}, err
	}
	of := func(n ast.Node) place {
		return place{begin: fset.Position(n.Pos()).Offset, end: fset.Position(n.End()).Offset}
	}
	var exact, methods []place
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			p := of(d)
			if d.Body != nil {
				p.body = fset.Position(d.Body.Lbrace).Offset + 1
			}
			switch t := receiver(d); {
			case t == "" && d.Name.Name == decl, t+"."+d.Name.Name == decl:
				exact = append(exact, p)
			case d.Name.Name == decl:
				methods = append(methods, p)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if declares(s, decl) {
					exact = append(exact, of(s))
				}
			}
		}
	}
	if len(exact) == 0 {
		exact = methods
	}
	if len(exact) != 1 {
		return place{}, fmt.Errorf("there are %d declarations of %s; it must be one (a method is Type.name)", len(exact), decl)
	}
	return exact[0], nil
}

// receiver returns the name of the type that d is a method of.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

func declares(s ast.Spec, name string) bool {
	switch s := s.(type) {
	case *ast.TypeSpec:
		return s.Name.Name == name
	case *ast.ValueSpec:
		for _, n := range s.Names {
			if n.Name == name {
				return true
			}
		}
	}
	return false
}

// locate returns the one place in src that has the tokens of old.
func locate(src, old []byte) (from, to int, err error) {
	in, want := tokens(src), tokens(old)
	found := 0
	for i := range len(in) - len(want) + 1 {
		if same(in[i:i+len(want)], want) {
			found++
			from, to = in[i].from, in[i+len(want)-1].to
		}
	}
	if found != 1 {
		return 0, 0, fmt.Errorf("the code to change occurs %d times; it must be once: %s", found, old)
	}
	return from, to, nil
}

// lexeme is a token and its place.
type lexeme struct {
	text     string
	from, to int
}

// tokens returns those of src, without comments and line ends.
func tokens(src []byte) (all []lexeme) {
	file := token.NewFileSet().AddFile("", -1, len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, 0)
	for {
		pos, tok, lit := s.Scan()
		switch {
		case tok == token.EOF:
			return all
		case tok == token.SEMICOLON && lit == "\n":
			continue
		case lit == "" || tok == token.SEMICOLON:
			lit = tok.String()
		}
		from := file.Offset(pos)
		all = append(all, lexeme{lit, from, from + len(lit)})
	}
}

func same(a, b []lexeme) bool {
	for i := range a {
		if a[i].text != b[i].text {
			return false
		}
	}
	return true
}
