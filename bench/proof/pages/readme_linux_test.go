//go:build proof

package pages

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var firstProgram = regexp.MustCompile("(?s)```go\n(package main\n.*?)```")

// TestFirstProgram: the first program of the README goes on when it runs out of descriptors.
func TestFirstProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds a program")
	}
	m := firstProgram.FindStringSubmatch(read(t, "README.md"))
	if m == nil {
		t.Fatal("README.md has no program")
	}
	address := freeAddress(t)
	source, program := filepath.Join(t.TempDir(), "main.go"), filepath.Join(t.TempDir(), "main")
	if err := os.WriteFile(source, []byte(strings.ReplaceAll(m[1], "127.0.0.1:9000", address)), 0o644); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-o", program, source)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	server := exec.Command("sh", "-c", "ulimit -n 500; exec "+program)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		server.Process.Kill()
		server.Wait()
	}()

	conns := dialAll(t, address, 600) // those that aren't accepted wait in the backlog
	time.Sleep(time.Second)           // in which the server tries to accept them
	for _, c := range conns[100:] {
		c.Close()
	}
	late := dialAll(t, address, 1)[0]
	defer late.Close()
	late.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := io.WriteString(late, "hello"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(late, make([]byte, 5)); err != nil {
		t.Error("a connection after the descriptors ran out:", err)
	}
	for _, c := range conns[:100] {
		c.Close()
	}
}

// freeAddress returns an address that stays free while the program is built: Linux gives other
// listeners, and outgoing connections, higher ports.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		address := fmt.Sprint("127.0.0.1:", 10_000+rand.IntN(20_000))
		if ln, err := net.Listen("tcp", address); err == nil {
			ln.Close()
			return address
		}
	}
	t.Fatal("no port is free")
	return ""
}

// dialAll makes connections, once the server listens.
func dialAll(t *testing.T, address string, n int) (all []net.Conn) {
	t.Helper()
	for until := time.Now().Add(30 * time.Second); len(all) < n; {
		c, err := net.Dial("tcp", address)
		switch {
		case err == nil:
			all = append(all, c)
		case time.Now().After(until):
			t.Fatal(err)
		default:
			time.Sleep(10 * time.Millisecond)
		}
	}
	return all
}
