//go:build proof

package idleprom

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

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
