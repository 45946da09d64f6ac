package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// A workspace has a copy of what a suite tests. Files of the standard library are overlaid,
// and a module is copied and replaced as a whole.
type workspace struct {
	root   string // of our module
	dir    string // temporary
	goroot string

	module  string
	tree    string            // the copy of the module
	overlay map[string]string // by the files that are replaced
}

// prepare makes a copy of s in dir, with its hooks. It returns what is tested, and the flags
// by which go test finds the copy when it is run in the module at root.
func (s suite) prepare(ctx context.Context, root, dir string) (version string, flags []string, err error) {
	env, err := output(ctx, root, "go", "env", "GOVERSION", "GOROOT")
	if err != nil {
		return "", nil, err
	}
	version, goroot, _ := strings.Cut(strings.TrimSpace(string(env)), "\n")
	w := &workspace{root: root, dir: dir, goroot: goroot, module: s.module, overlay: map[string]string{}}
	if s.module != "" {
		if version, err = w.copyModule(ctx); err != nil {
			return "", nil, err
		}
		modfile, err := w.modfile(version)
		if err != nil {
			return "", nil, err
		}
		version = s.module + " " + version
		flags = append(flags, "-modfile", modfile, "-mod=mod")
	}
	if err := w.hook(s); err != nil {
		return "", nil, err
	}
	if len(w.overlay) > 0 {
		overlay, err := json.Marshal(map[string]any{"Replace": w.overlay})
		if err != nil {
			return "", nil, err
		}
		file := filepath.Join(dir, "overlay.json")
		if err := write(file, overlay); err != nil {
			return "", nil, err
		}
		flags = append(flags, "-overlay", file)
	}
	return version, flags, nil
}

// copyModule copies the module from the module cache, and returns its version.
func (w *workspace) copyModule(ctx context.Context) (version string, err error) {
	query := w.module
	if v, ok := versions[w.module]; ok {
		query += "@" + v
	}
	out, err := output(ctx, w.root, "go", "mod", "download", "-json", query)
	if err != nil {
		return "", err
	}
	var module struct{ Version, Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		return "", err
	}
	w.tree = filepath.Join(w.dir, "module")
	return module.Version, os.CopyFS(w.tree, os.DirFS(module.Dir))
}

// modfile makes a go.mod that has ours and the copy. Sums of what only the tests of the copy
// need are in its own go.sum.
func (w *workspace) modfile(version string) (file string, err error) {
	file = filepath.Join(w.dir, "go.mod")
	mod, err := os.ReadFile(filepath.Join(w.root, "go.mod"))
	if err != nil {
		return "", err
	}
	const idlegrpc = "adapters/idlegrpc" // a module of its own
	mod = fmt.Appendf(mod, "\nrequire %s %s\nreplace %[1]s => %[3]s\nreplace github.com/idlewheel/idlewheel/%s => %s\n",
		w.module, version, w.tree, idlegrpc, filepath.Join(w.root, idlegrpc))
	var sums []byte
	for _, dir := range []string{w.root, w.tree} {
		sum, err := os.ReadFile(filepath.Join(dir, "go.sum"))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
		sums = append(sums, sum...)
	}
	if err := write(filepath.Join(w.dir, "go.sum"), sums); err != nil {
		return "", err
	}
	return file, write(file, mod)
}

// hook patches the copy, and adds the files that set its hooks.
func (w *workspace) hook(s suite) error {
	for _, p := range s.patches {
		text, err := os.ReadFile(w.current(p.file))
		if err != nil {
			return err
		}
		if text, err = p.apply(text); err != nil {
			return err
		}
		if err := w.put(p.file, text); err != nil {
			return err
		}
	}
	for _, pkg := range s.packages {
		files, err := s.added(pkg)
		if err != nil {
			return err
		}
		for name, text := range files {
			if err := w.put(path.Join(pkg, name), text); err != nil {
				return err
			}
		}
	}
	return nil
}

// current returns where a file is that has a name such as net/http/server.go.
func (w *workspace) current(name string) string {
	name = filepath.FromSlash(name)
	if rest, ok := strings.CutPrefix(name, filepath.FromSlash(w.module)+string(filepath.Separator)); ok && w.module != "" {
		return filepath.Join(w.tree, rest)
	}
	original := filepath.Join(w.goroot, "src", name)
	return cmp.Or(w.overlay[original], original)
}

// put writes a file of that name to the copy.
func (w *workspace) put(name string, text []byte) error {
	file := w.current(name)
	if original := filepath.Join(w.goroot, "src", filepath.FromSlash(name)); file == original {
		file = filepath.Join(w.dir, "std", filepath.FromSlash(name))
		w.overlay[original] = file
	}
	return write(file, text)
}

// output runs a command in dir, and returns what it writes to its standard output.
func output(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return nil, fmt.Errorf("%s: %w\n%s%s", cmd, err, exit.Stderr, out)
	}
	return out, err
}

// moduleRoot returns the directory of this module.
func moduleRoot(ctx context.Context) (string, error) {
	out, err := output(ctx, ".", "go", "env", "GOMOD")
	file := strings.TrimSpace(string(out))
	if err == nil && filepath.Base(file) != "go.mod" {
		err = errors.New("there is no go.mod; run it within the repository")
	}
	return filepath.Dir(file), err
}

// write writes a file, and makes directories for it as needed.
func write(file string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
		return err
	}
	os.Remove(file) // a copy of what is read-only
	return os.WriteFile(file, text, 0o666)
}
