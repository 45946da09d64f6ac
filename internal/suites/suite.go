package main

import (
	"embed"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// A suite is the tests of packages of the standard library, or of a module.
type suite struct {
	name     string
	module   string // empty for the standard library
	packages []string

	patches []patch  // give what is tested a hook
	hooks   []string // files of testdata that set it

	differences []known
}

var suites = []suite{nethttp, fasthttp, http2, tls, coder, gorilla, gnet, grpc, nats, redis}

// versions has those of the modules that our go.mod doesn't require.
var versions = map[string]string{
	gorillaPath: "v1.5.3",
	grpcPath:    "v1.85.0", // as in adapters/idlegrpc
	natsPath:    "v2.15.2",
	redisPath:   "v2.35.0",
}

// A patch inserts code in a file.
type patch struct {
	file    string // such as net/http/server.go
	after   string // whole lines that the file has once
	insert  string
	declare string // a variable, without var; it may be empty
}

// apply returns the text of the file with the code in it.
func (p patch) apply(text []byte) ([]byte, error) {
	if n := strings.Count(string(text), "\n"+p.after+"\n"); n != 1 {
		return nil, fmt.Errorf("%s has %q %d times, not once; adapt internal/suites to it", p.file, p.after, n)
	}
	lines := p.after + "\n"
	patched := strings.Replace(string(text), "\n"+lines, "\n"+lines+p.insert+"\n", 1)
	if p.declare != "" {
		patched += "\nvar " + p.declare + "\n"
	}
	return []byte(patched), nil
}

// The test files that are added to each package. They are of package hook_test here.
//
//go:embed testdata
var testdata embed.FS

// added returns, by name, the files that are added to the external tests of pkg.
func (s suite) added(pkg string) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, name := range slices.Concat([]string{"wrap.go", "control.go"}, s.hooks) {
		text, err := testdata.ReadFile("testdata/" + name)
		if err != nil {
			return nil, err
		}
		body, ok := strings.CutPrefix(string(text), "package hook_test\n")
		if !ok {
			return nil, fmt.Errorf("%s does not begin with package hook_test", name)
		}
		files["suites_"+strings.TrimSuffix(name, ".go")+"_test.go"] = []byte(language + "package " + packageName(pkg) + "_test\n" + body)
	}
	return files, nil
}

// language makes an added file one of our version of Go, whatever the go.mod of the suite says.
const language = "//go:build go1.26\n\n"

var major = regexp.MustCompile(`/v[0-9]+$`)

// packageName returns the name of the package with the given path.
func packageName(pkg string) string { return path.Base(major.ReplaceAllString(pkg, "")) }
