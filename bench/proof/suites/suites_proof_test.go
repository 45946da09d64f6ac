//go:build proof

// Package suites runs the tests of other projects over connections with timeouts, to see that
// these behave like connections without: those of net/http, fasthttp, gnet, crypto/tls,
// x/crypto/ssh and nats-server.
//
//	go -C bench test -tags proof ./proof/suites -v -timeout 2h -run Suites/nethttp
//
// What is tested gets one line, in a copy: the Serve method of a server, for example, replaces its
// listener by what a function variable returns. A module is copied to a temporary directory. Files
// of the standard library are overlaid, so its tests run where they are, and can still reach
// internals. A toolchain in the module cache, where GOTOOLCHAIN puts it, can't be overlaid.
//
// Each suite runs twice: bare, and wrapped. For the second run a test file is added that sets the
// variable, so that every listener that a test serves on goes through an adapter, with limits that
// no test reaches. A test that fails only then is run alone, twice. If it passes, it is only logged.
//
// A new suite is an entry in suites, and a file in testdata that sets its variable.
package suites

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A suite is the tests of packages of the standard library, or of a module.
type suite struct {
	name     string
	module   string // empty for the standard library
	version  string // of the module, if our go.mod doesn't require it
	packages []string
	hook     string // the type of SuitesHook, a variable that the first patch declares
	patches  []patch
	differ   map[string]string // tests that are known to differ, and why
}

// A patch inserts code in a file, such as net/http/server.go, after whole lines that it has once.
type patch struct{ file, after, insert string }

const (
	fasthttp  = "github.com/valyala/fasthttp"
	gnet      = "github.com/panjf2000/gnet/v2"
	crypto    = "golang.org/x/crypto"
	nats      = "github.com/nats-io/nats-server/v2"
	hijacked  = "it wants a hijacked connection to be a *net.TCPConn, and the wrapper is handed out"
	forgotten = "it never closes a connection that it hijacks; the tracker refers to it, and TestMain finds the tracker's goroutines"
	caller    = "it wants the log to name the caller of a superfluous WriteHeader, and names the wrapper of the ResponseWriter"
	tlsConn   = "its connection is no *tls.Conn, but has a method ConnectionState, and Accept refuses what has TLS inside"
)

func suites() []suite {
	return []suite{{
		name: "nethttp", packages: []string{"net/http", "net/http/httptest", "net/http/httputil"},
		hook:    "func(*Server, net.Listener) net.Listener",
		patches: []patch{{"net/http/server.go", "func (s *Server) Serve(l net.Listener) error {", "if SuitesHook != nil { l = SuitesHook(s, l) }"}},
		differ: map[string]string{
			"TestTLSServerWithoutTLSConn":         tlsConn,
			"TestClientServerTLSConnWrapper":      tlsConn, // since Go 1.27
			"TestTransportProxy":                  forgotten,
			"TestOnProxyConnectResponse":          forgotten,
			"TestResponseControllerHijack":        forgotten,
			"TestHijackAfterCloseNotifier":        hijacked,
			"TestReverseProxyWebSocketHalfTCP":    hijacked,
			"TestWriteHeaderNoCodeCheck":          caller,
			"TestWriteHeaderNoCodeCheck_h1hijack": caller,
			"TestServerHandlersCanHandleH2PRI":    "it hijacks the preface of HTTP/2, as x/net/http2/h2c does, whose connections would have no limits",
		},
	}, {
		name: "fasthttp", module: fasthttp, packages: []string{fasthttp, fasthttp + "/fasthttpadaptor", fasthttp + "/fasthttpproxy"},
		hook:    "func(*Server, net.Listener) net.Listener",
		patches: []patch{{fasthttp + "/server.go", "func (s *Server) Serve(ln net.Listener) error {", "if SuitesHook != nil { ln = SuitesHook(s, ln) }"}},
		differ:  map[string]string{"TestAllocationClient": "it counts allocations, and a handler with a HandlerTimeout has a goroutine of its own"},
	}, {
		name: "gnet", module: gnet, packages: []string{gnet},
		hook: "func(EventHandler) EventHandler",
		patches: []patch{
			{gnet + "/engine_unix.go", "func run(eventHandler EventHandler, listeners []*listener, options *Options, addrs []string) error {",
				"if SuitesHook != nil { eventHandler = SuitesHook(eventHandler) }"},
			{gnet + "/client_unix.go", "func NewClient(eh EventHandler, opts ...Option) (cli *Client, err error) {", "if SuitesHook != nil { eh = SuitesHook(eh) }"},
			{gnet + "/listener_unix.go", // its ports are fixed, and may be in TIME_WAIT since the last run
				"func initListener(network, addr string, options *Options) (ln *listener, err error) {", "options.ReuseAddr = true"},
		},
	}, {
		name: "tls", packages: []string{"crypto/tls"},
		hook: "func(net.Listener) net.Listener",
		patches: []patch{
			{"crypto/tls/handshake_test.go", "func localServer(l net.Listener) {", "if SuitesHook != nil { l = SuitesHook(l) }"},
			{"crypto/tls/tls_test.go", "		ln, err = net.Listen(\"tcp6\", \"[::1]:0\")\n	}\n	if err != nil {\n		t.Fatal(err)\n	}",
				"if SuitesHook != nil { ln = SuitesHook(ln) }"},
		},
	}, {
		name: "ssh", module: crypto, version: "v0.58.0", packages: []string{crypto + "/ssh", crypto + "/ssh/agent"},
		hook: "func(net.Conn) net.Conn",
		patches: []patch{
			{crypto + "/ssh/server.go", "func NewServerConn(c net.Conn, config *ServerConfig) (*ServerConn, <-chan NewChannel, <-chan *Request, error) {",
				"if SuitesHook != nil { c = SuitesHook(c) }"},
			{crypto + "/ssh/client.go", "func NewClientConn(c net.Conn, addr string, config *ClientConfig) (Conn, <-chan NewChannel, <-chan *Request, error) {",
				"if SuitesHook != nil { c = SuitesHook(c) }"},
		},
	}, {
		name: "nats", module: nats, version: "v2.15.2", packages: []string{nats + "/test"},
		hook: "func(net.Listener, error) (net.Listener, error)",
		patches: []patch{{nats + "/server/util.go", "func natsListen(network, address string) (net.Listener, error) {",
			"if SuitesHook != nil { return SuitesHook(natsListenConfig.Listen(context.Background(), network, address)) }"}},
	}}
}

// The test files that are added to each package. They are of package hook_test here.
//
//go:embed testdata
var testdata embed.FS

// apply returns the text of the file with the code in it.
func (p patch) apply(text string) (string, error) {
	lines := "\n" + p.after + "\n"
	if n := strings.Count(text, lines); n != 1 {
		return "", fmt.Errorf("%s has %q %d times, not once; adapt the suite to it", p.file, p.after, n)
	}
	return strings.Replace(text, lines, lines+p.insert+"\n", 1), nil
}

// A workspace has a copy of what a suite tests.
type workspace struct {
	t         *testing.T
	root, dir string // of our module, and a temporary one
	goroot    string
	suite
	tree    string            // the copy of the module
	overlay map[string]string // by the files of the standard library that are replaced
	flags   []string          // by which go test finds the copy
	log     string            // a file that is there when something was wrapped
}

// prepare makes a copy of s, with its variables.
func (s suite) prepare(t *testing.T) *workspace {
	w := &workspace{t: t, dir: t.TempDir(), suite: s, overlay: map[string]string{}}
	w.goroot = strings.TrimSpace(string(w.output("go", "env", "GOROOT")))
	w.log = filepath.Join(w.dir, "wrapped")
	w.root = filepath.Join(filepath.Dir(strings.TrimSpace(string(w.output("go", "env", "GOMOD")))), "..")
	if s.module != "" {
		w.copyModule()
	}
	for i, p := range s.patches {
		patched, err := p.apply(w.read(w.current(p.file)))
		w.must(err)
		if i == 0 {
			patched += "\nvar SuitesHook " + s.hook + "\n"
		}
		w.put(p.file, patched)
	}
	return w
}

// wrap adds the test files that set the variables.
func (w *workspace) wrap() {
	for _, pkg := range w.packages {
		name := path.Base(regexp.MustCompile(`/v[0-9]+$`).ReplaceAllString(pkg, ""))
		for _, file := range []string{"wrap.go", w.name + ".go"} {
			text, err := testdata.ReadFile("testdata/" + file)
			w.must(err)
			// An added file has our version of Go, whatever the go.mod of the suite says.
			w.put(path.Join(pkg, "suites_"+strings.TrimSuffix(file, ".go")+"_test.go"),
				"//go:build go1.26\n\n"+strings.Replace(string(text), "package hook_test", "package "+name+"_test", 1))
		}
	}
}

// copyModule copies the module from the module cache, and makes a go.mod that has ours and the
// copy. Sums of what only the tests of the copy need are in its own go.sum.
func (w *workspace) copyModule() {
	var module struct{ Version, Dir string }
	w.must(json.Unmarshal(w.output("go", "mod", "download", "-json", strings.TrimSuffix(w.module+"@"+w.version, "@")), &module))
	w.tree = filepath.Join(w.dir, "module")
	w.must(os.CopyFS(w.tree, os.DirFS(module.Dir)))
	w.write("go.sum", w.read(w.root, "go.sum")+w.read(w.tree, "go.sum"))
	w.flags = append(w.flags, "-mod=mod", "-modfile",
		w.write("go.mod", fmt.Sprintf("%s\nrequire %s %s\nreplace %[2]s => %[4]s\n", w.read(w.root, "go.mod"), w.module, module.Version, w.tree)))
}

// current returns where a file is that has a name such as net/http/server.go.
func (w *workspace) current(name string) string {
	if rest, ok := strings.CutPrefix(name, w.module+"/"); ok && w.module != "" {
		return filepath.Join(w.tree, rest)
	}
	original := filepath.Join(w.goroot, "src", name)
	return cmp.Or(w.overlay[original], original)
}

// put writes a file of that name to the copy.
func (w *workspace) put(name, text string) {
	file := w.current(name)
	if original := filepath.Join(w.goroot, "src", name); file == original {
		file = filepath.Join(w.dir, "std", name)
		w.overlay[original] = file
	}
	w.must(os.MkdirAll(filepath.Dir(file), 0o777))
	os.Remove(file) // a copy of what is read-only
	w.must(os.WriteFile(file, []byte(text), 0o666))
}

func (w *workspace) read(path ...string) string {
	text, err := os.ReadFile(filepath.Join(path...))
	w.must(err)
	return string(text)
}

func (w *workspace) write(name, text string) string {
	file := filepath.Join(w.dir, name)
	w.must(os.WriteFile(file, []byte(text), 0o666))
	return file
}

func (w *workspace) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// output runs a command, and returns what it writes.
func (w *workspace) output(name string, args ...string) []byte {
	cmd := exec.CommandContext(w.t.Context(), name, args...)
	cmd.Dir = w.root
	out, err := cmd.Output()
	w.must(err)
	return out
}

// results are what became of tests: pass, fail, skip, or run for those that did not end.
type results map[string]string

func (r results) failed(name string) bool { return r[name] == "fail" || r[name] == "run" }

// run runs the tests that match a pattern, but for those that are known to differ.
func (w *workspace) run(pattern string) results {
	overlay, err := json.Marshal(map[string]any{"Replace": w.overlay})
	w.must(err)
	args := append([]string{"test", "-json", "-count=1", "-timeout", "20m", "-overlay", w.write("overlay.json", string(overlay))}, w.flags...)
	if pattern != "" {
		args = append(args, "-run", pattern)
	} else if len(w.differ) > 0 {
		args = append(args, "-skip", "^("+strings.Join(slices.Collect(maps.Keys(w.differ)), "|")+")$")
	}
	cmd := exec.CommandContext(w.t.Context(), "go", append(args, w.packages...)...)
	cmd.Dir = w.root
	cmd.Env = append(os.Environ(), "GOFLAGS=", "SUITES_LOG="+w.log)
	out, _ := cmd.Output() // it fails if a test does
	r, count, said := results{}, map[string]int{}, map[string]string{}
	for events := json.NewDecoder(bytes.NewReader(out)); events.More(); {
		var e struct{ Action, Package, Test, Output string }
		w.must(events.Decode(&e))
		switch e.Action {
		case "run", "start", "pass", "fail", "skip":
			r[e.Package+" "+e.Test] = strings.Replace(e.Action, "start", "run", 1)
		case "build-output":
			w.t.Log(e.Output)
		case "output":
			if e.Test == "" {
				said[e.Package] += e.Output
			}
		}
		if e.Action == "fail" && e.Test == "" {
			w.t.Logf("%s failed: %s", e.Package, said[e.Package]) // maybe none of its tests did
		}
	}
	for _, outcome := range r {
		count[outcome]++
	}
	w.t.Logf("%s: %v", pattern, count)
	return r
}

// TestSuites compares what the suites do with and without timeouts.
func TestSuites(t *testing.T) {
	for _, s := range suites() {
		t.Run(s.name, func(t *testing.T) {
			w := s.prepare(t)
			bare := w.run("")
			w.wrap()
			wrapped := w.run("")
			if _, err := os.Stat(w.log); err != nil || len(bare) < 50 {
				t.Fatalf("%d tests ran, and nothing was wrapped: %v", len(bare), err)
			}
			for _, name := range s.differences(bare, wrapped) {
				_, test, _ := strings.Cut(name, " ")
				pattern := "^" + strings.ReplaceAll(regexp.QuoteMeta(test), "/", "$/^") + "$"
				if test == "" || w.run(pattern).failed(name) || w.run(pattern).failed(name) {
					t.Errorf("%s fails only when wrapped", name)
				} else {
					t.Logf("unsteady: %s failed wrapped, and passed alone", name)
				}
			}
		})
	}
}

// differences returns the tests that failed in wrapped, or are missing there, and not in bare.
// Of a test that fails because a subtest does, only the subtest counts.
func (s suite) differences(bare, wrapped results) (all []string) {
	for name := range wrapped {
		deeper := false
		for other := range wrapped {
			deeper = deeper || wrapped.failed(other) && below(other, name)
		}
		if wrapped.failed(name) && !bare.failed(name) && !deeper {
			all = append(all, name)
		}
	}
	for name, outcome := range bare {
		_, test, _ := strings.Cut(name, " ")
		if _, ran := wrapped[name]; !ran && outcome == "pass" && !strings.Contains(test, "/") {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

// below reports whether one is a subtest of the other, or a test of the package that the
// other is. The name of a package ends with a space.
func below(one, other string) bool {
	return one != other && (strings.HasPrefix(one, other+"/") || strings.HasSuffix(other, " ") && strings.HasPrefix(one, other))
}
