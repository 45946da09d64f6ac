//go:build proof

package idlenet

import (
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/intime"
	"github.com/idlewheel/idlewheel/idle"
)

// After EOF the peer owes nothing, however often a server asks.
func TestReadTimeoutDoesNotCountAfterEOF(t *testing.T) {
	t.Parallel()
	const limit = 200 * time.Millisecond
	g := together{t: t}
	defer g.wait.Wait()
	for name, read := range map[string]func(*Conn) error{
		"Read": func(c *Conn) error { return readAll(c) },
		"WriteTo": func(c *Conn) error {
			if _, err := io.Copy(io.Discard, c); err != nil {
				return err
			}
			return io.EOF
		},
		"splice": func(c *Conn) error {
			dst, peer := net.Pipe()
			defer dst.Close()
			go readAll(peer)
			if _, err := io.Copy(dst, c); err != nil {
				return err
			}
			return io.EOF
		},
	} {
		g.run(name, func(t *testing.T) {
			server, client := connect(t, newTracker(t, idle.Policy{
				ReadTimeout: limit, MinReadRate: idle.Rate{BytesPerSecond: 1000, Grace: limit}}), nil)
			inTime := intime.Of(t, limit/4)
			client.Write([]byte("request"))
			client.CloseWrite()
			if err := read(server); err != io.EOF {
				inTime.Fatal(err)
			}
			go readAll(client)
			for end := time.Now().Add(3 * limit); time.Now().Before(end); time.Sleep(limit / 10) {
				if _, err := server.Write([]byte("response")); err != nil {
					t.Fatal(err)
				}
				if err := read1(server); err != io.EOF {
					t.Fatal(err)
				}
			}
		})
	}
}

func TestCloseReadEndsPendingReadWithEOF(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("CloseRead does not disturb a read there")
	}
	server, _ := connect(t, newTracker(t, idle.Policy{IdleTimeout: time.Minute}), nil)
	time.AfterFunc(20*time.Millisecond, func() { server.CloseRead() })
	if err, _ := await(t, func() error { return read1(server) }); err != io.EOF {
		t.Errorf("got %v, want EOF", err)
	}
}
