//go:build proof

package pages

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	snippet   = regexp.MustCompile("(?ms)^```go\n(.*?)^```")
	importing = regexp.MustCompile(`(?m)^import .*\n`)
	unused    = regexp.MustCompile(`declared and not used|imported and not used|imported as .* and not used`)
)

// given is what the README's snippets take for granted.
const given = `
import (
	"net"
	"net/http"
	"time"

	"github.com/panjf2000/gnet/v2"
	"github.com/valyala/fasthttp"
)

type echoServer struct{ gnet.BuiltinEventEngine }

var (
	bare   net.Listener
	h      http.Handler
	f      fasthttp.RequestHandler
	policy idle.Policy
)
`

// TestSnippets compiles the README's snippets. They use the adapters, without imports, and what is given above.
func TestSnippets(t *testing.T) {
	all := snippet.FindAllStringSubmatch(read(t, "README.md"), -1)
	if len(all) < 4 {
		t.Fatalf("README.md has %d snippets", len(all))
	}
	for _, m := range all[2:] { // the others are programs: TestFirstProgram, TestQuoted
		imports := strings.Join(importing.FindAllString(m[1], -1), "")
		for _, known := range []string{"idle", "adapters/idlenet", "adapters/idlehttp", "adapters/idlefasthttp", "adapters/idlegnet"} {
			if line := "import \"github.com/idlewheel/idlewheel/" + known + "\"\n"; !strings.Contains(imports, line) {
				imports += line
			}
		}
		body := strings.ReplaceAll(importing.ReplaceAllString(m[1], ""), "\n...\n", "\n")
		if strings.Contains(body, "ln.Tracker()") {
			body = "var ln *idlenet.Listener\n" + body
		}
		_, out := compile(t, "package main\n"+imports+given+"func main() {\nvar err error\n_ = err\n{\n"+body+"}\n}\n")
		for line := range strings.Lines(out) {
			if !strings.HasPrefix(line, "#") && !unused.MatchString(line) {
				t.Errorf("%sin\n%s", line, m[1])
			}
		}
	}
}

// compile returns a program, and what the compiler says about it.
func compile(t *testing.T, source string) (program, out string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	program = strings.TrimSuffix(file, ".go")
	build := exec.Command("go", "build", "-gcflags=-e", "-o", program, file)
	build.Dir = root
	text, _ := build.CombinedOutput()
	return program, string(text)
}
