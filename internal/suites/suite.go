package main

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// A suite is the tests of a server.
type suite struct {
	name     string
	packages []string
	hook     string // the file of testdata that wraps a listener of this server

	differences []known

	// prepare makes a copy of the suite in dir in which listeners can be wrapped. It
	// returns what is tested, and the flags by which go test finds the copy when it
	// is run in the module at root.
	prepare func(ctx context.Context, s suite, root, dir string) (version string, flags []string, err error)
}

var suites = []suite{nethttp, fasthttp}

// The test files that are added to each package. They are of package hook_test here.
//
//go:embed testdata
var testdata embed.FS

// hooks returns, by name, the files that are added to the external tests of pkg.
func (s suite) hooks(pkg string) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, name := range []string{"wrap.go", "control.go", s.hook} {
		text, err := testdata.ReadFile("testdata/" + name)
		if err != nil {
			return nil, err
		}
		text, err = replaceOnce(text, "package hook_test\n", "package "+path.Base(pkg)+"_test\n")
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		files["suites_"+strings.TrimSuffix(name, ".go")+"_test.go"] = text
	}
	return files, nil
}

// hooked returns the text of a server.go whose method Serve, with the given
// parameter, begins with a call of a hook.
func hooked(server []byte, parameter string) ([]byte, error) {
	serve := "\nfunc (s *Server) Serve(" + parameter + " net.Listener) error {\n"
	server, err := replaceOnce(server, serve, `
// SuitesHook returns what is served in place of a listener.
var SuitesHook func(*Server, net.Listener) net.Listener
`+serve+`	if SuitesHook != nil {
		`+parameter+` = SuitesHook(s, `+parameter+`)
	}
`)
	if err != nil {
		return nil, fmt.Errorf("server.go: %w", err)
	}
	return server, nil
}

func replaceOnce(text []byte, old, new string) ([]byte, error) {
	if n := bytes.Count(text, []byte(old)); n != 1 {
		return nil, fmt.Errorf("it has %q %d times, not once; adapt internal/suites to it", old, n)
	}
	return bytes.Replace(text, []byte(old), []byte(new), 1), nil
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
	return os.WriteFile(file, text, 0o666)
}
