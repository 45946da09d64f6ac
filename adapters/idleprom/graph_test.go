package idleprom

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// module is where all packages are.
const module = "github.com/idlewheel/idlewheel"

// goCommand runs the go command in dir, with changes of the environment.
func goCommand(t *testing.T, dir string, env []string, args ...string) (stdout string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return strings.TrimSpace(string(out)), err
}

// foreign reports whether a package or file belongs to a module that only idleprom needs.
func foreign(path string) bool {
	return strings.Contains(path, "github.com/prometheus") || strings.Contains(path, "google.golang.org/protobuf")
}

// TestPackageGraph: a user who imports other packages of the module compiles nothing of
// Prometheus.
func TestPackageGraph(t *testing.T) {
	all, err := goCommand(t, "../..", nil, "list", "./idle/...", "./wheel", "./adapters/...")
	if err != nil {
		t.Fatal(err)
	}
	var others []string
	for pkg := range strings.Lines(all) {
		if pkg = strings.TrimSpace(pkg); pkg != module+"/adapters/idleprom" && pkg != module+"/adapters/idledebug" {
			others = append(others, pkg)
		}
	}
	if len(others) < 8 {
		t.Fatalf("there are only %q", others)
	}
	deps, err := goCommand(t, "../..", nil, append([]string{"list", "-deps"}, others...)...)
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range strings.Lines(deps) {
		if foreign(pkg) {
			t.Errorf("%q depends on %s", others, pkg)
		}
	}
}

// TestDownloads builds a server of a user's, who imports idle and idlenet only, with an
// empty module cache. Nothing of Prometheus is downloaded.
func TestDownloads(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a program with an empty module cache")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	old, err := goCommand(t, root, nil, "env", "GOMODCACHE")
	if err != nil {
		t.Fatal(err)
	}
	proxy := filepath.ToSlash(filepath.Join(old, "cache", "download"))
	if !strings.HasPrefix(proxy, "/") {
		proxy = "/" + proxy // of Windows
	}
	user, fresh := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.com/user\n\ngo 1.26.0\n\nrequire " + module + " v0.0.0\n\nreplace " + module + " => " + filepath.ToSlash(root) + "\n",
		"main.go": `package main

import (
	"log"
	"net"
	"time"

	"` + module + `/adapters/idlenet"
	"` + module + `/idle"
)

func main() {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := idlenet.Wrap(ln, idle.Policy{IdleTimeout: time.Minute}, nil); err != nil {
		log.Fatal(err)
	}
}
`,
	} {
		if err := os.WriteFile(filepath.Join(user, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{
		"GOMODCACHE=" + fresh, "GOPROXY=file://" + proxy, "GOSUMDB=off", "GOVCS=*:off",
		"GOFLAGS=-mod=mod -modcacherw -buildvcs=false", "GOWORK=off", "GOTOOLCHAIN=local",
	}
	for _, args := range [][]string{{"mod", "tidy"}, {"build", "-o", filepath.Join(user, "server"), "."}} {
		if _, err := goCommand(t, user, env, args...); err != nil {
			if strings.Contains(err.Error(), proxy) {
				t.Skip("the module cache of this machine does not have all that is needed")
			}
			t.Fatal(err)
		}
	}
	zips := 0
	err = filepath.WalkDir(filepath.Join(fresh, "cache", "download"), func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".zip") {
			zips++
			if foreign(filepath.ToSlash(path)) {
				t.Error("downloaded:", path)
			}
		}
		return err
	})
	if err != nil || zips == 0 {
		t.Errorf("%d modules are downloaded, %v; golang.org/x/sys should be", zips, err)
	}
}
