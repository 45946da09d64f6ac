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
	if testing.Short() {
		t.Skip("it builds all adapters")
	}
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
		source := "package main\n" + imports + given + "func main() {\nvar err error\n_ = err\n{\n" + body + "}\n}\n"
		if out := compile(t, source); out != "" {
			t.Errorf("this doesn't compile:\n%s\n%s", m[1], out)
		}
	}
}

// compile returns what the compiler says, but for what a snippet leaves unused.
func compile(t *testing.T, source string) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "main.go")
	if err := os.WriteFile(file, []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-gcflags=-e", "-o", filepath.Join(dir, "main"), file)
	build.Dir = root
	out, err := build.CombinedOutput()
	if err == nil {
		return ""
	}
	var left []string
	for line := range strings.Lines(string(out)) {
		if !strings.HasPrefix(line, "#") && !unused.MatchString(line) {
			left = append(left, line)
		}
	}
	return strings.Join(left, "")
}
