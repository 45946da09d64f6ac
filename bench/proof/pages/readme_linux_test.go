//go:build proof

package pages

import (
	"io"
	"net"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/server"
)

var firstProgram = regexp.MustCompile("(?s)```go\n(package main\n.*?)```")

// TestFirstProgram: the first program of the README goes on when it runs out of descriptors.
func TestFirstProgram(t *testing.T) {
	m := firstProgram.FindStringSubmatch(read(t, "README.md"))
	address, err := server.FreeAddress()
	if m == nil || err != nil {
		t.Fatal("README.md has no program, or no port is free:", err)
	}
	program, out := compile(t, strings.ReplaceAll(m[1], "127.0.0.1:9000", address))
	if out != "" {
		t.Fatal(out)
	}
	process := exec.Command("sh", "-c", "ulimit -n 500; exec "+program)
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		process.Process.Kill()
		process.Wait()
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
