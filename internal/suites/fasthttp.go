package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
)

const fasthttpPath = "github.com/valyala/fasthttp"

var fasthttp = suite{
	name:     "fasthttp",
	packages: []string{fasthttpPath, fasthttpPath + "/fasthttpadaptor", fasthttpPath + "/fasthttpproxy"},
	hook:     "fasthttp.go",
	prepare:  prepareFastHTTP,
}

// prepareFastHTTP copies the fasthttp that go.mod has, and replaces it by the copy.
func prepareFastHTTP(ctx context.Context, s suite, root, dir string) (version string, flags []string, err error) {
	out, err := output(ctx, root, "go", "mod", "download", "-json", fasthttpPath)
	if err != nil {
		return "", nil, err
	}
	var module struct{ Version, Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		return "", nil, err
	}
	tree := filepath.Join(dir, "fasthttp")
	if err := os.CopyFS(tree, os.DirFS(module.Dir)); err != nil {
		return "", nil, err
	}
	server, err := os.ReadFile(filepath.Join(tree, "server.go"))
	if err != nil {
		return "", nil, err
	}
	if server, err = hooked(server, "ln"); err != nil {
		return "", nil, err
	}
	files := map[string][]byte{filepath.Join(tree, "server.go"): server}
	for _, pkg := range s.packages {
		hooks, err := s.hooks(pkg)
		if err != nil {
			return "", nil, err
		}
		for name, text := range hooks {
			files[filepath.Join(tree, strings.TrimPrefix(pkg, fasthttpPath), name)] = text
		}
	}

	// The sums of what only fasthttp's tests need are in its own go.sum.
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return "", nil, err
	}
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		return "", nil, err
	}
	itsSum, err := os.ReadFile(filepath.Join(tree, "go.sum"))
	if err != nil {
		return "", nil, err
	}
	modfile := filepath.Join(dir, "go.mod")
	files[modfile] = append(mod, "\nreplace "+fasthttpPath+" => "+tree+"\n"...)
	files[filepath.Join(dir, "go.sum")] = append(sum, itsSum...)
	for name, text := range files {
		os.Remove(name) // a copy of what is read-only
		if err := write(name, text); err != nil {
			return "", nil, err
		}
	}
	return "fasthttp " + module.Version, []string{"-modfile", modfile, "-mod=mod"}, nil
}
