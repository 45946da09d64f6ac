package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/idlewheel/idlewheel/adapters/idlehttp"
	"github.com/idlewheel/idlewheel/adapters/idletest"
)

// inBubble starts the server in virtual time, and drains it after the test.
func inBubble(t *testing.T, c config, test func(t *testing.T, pipes *idletest.Listener, hup chan<- os.Signal, drain func())) {
	synctest.Test(t, func(t *testing.T) {
		pipes, hup, served := idletest.NewListener(), make(chan os.Signal), make(chan error, 1)
		ctx, drain := context.WithCancel(t.Context())
		go func() { served <- serve(ctx, pipes, c, hup) }()
		test(t, pipes, hup, drain)
		drain()
		close(hup)
		begun := time.Now()
		if err := <-served; err != nil || time.Since(begun) > 5*time.Second {
			t.Errorf("drained after %v: %v", time.Since(begun), err)
		}
	})
}

// TestHeartbeat: a WebSocket that answers pings may be silent, and is asked to leave in a drain. One
// that doesn't is dropped.
func TestHeartbeat(t *testing.T) {
	inBubble(t, config{}, func(t *testing.T, pipes *idletest.Listener, _ chan<- os.Signal, drain func()) {
		transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return pipes.DialContext(ctx) }}
		dial := func(answer bool) *websocket.Conn {
			ws, _, err := websocket.Dial(t.Context(), "ws://any/ws", &websocket.DialOptions{
				HTTPClient:     &http.Client{Transport: transport},
				OnPingReceived: func(context.Context, []byte) bool { return answer },
			})
			if err != nil {
				t.Fatal(err)
			}
			return ws
		}
		honest, heard := dial(true), make(chan string)
		go func() {
			defer close(heard)
			for _, message, err := honest.Read(context.Background()); err == nil; _, message, err = honest.Read(context.Background()) {
				heard <- string(message)
			}
		}()
		begun := time.Now()
		mute := dial(false)
		defer mute.CloseNow()
		if _, _, err := mute.Read(t.Context()); err == nil {
			t.Error("the mute one has got a message")
		}
		if lasted := time.Since(begun).Round(time.Second); lasted != 50*time.Second {
			t.Errorf("the mute one was dropped after %v", lasted)
		}
		time.Sleep(time.Hour)
		if err := honest.Write(t.Context(), websocket.MessageText, []byte("hello")); err != nil {
			t.Error(err)
		}
		if got := <-heard; got != "hello" {
			t.Errorf("the honest one has heard %q", got)
		}
		drain()
		if got := <-heard; got != goodbye {
			t.Errorf("in a drain the honest one has heard %q", got)
		}
		honest.Close(websocket.StatusNormalClosure, "")
	})
}

// TestReload: a new limit applies to an open connection, and a file that's wrong changes nothing.
func TestReload(t *testing.T) {
	file := filepath.Join(t.TempDir(), "timeouts.json")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"KeepAliveTimeout": "2h", "BodyTimeout": "off", "BodyRate": "100", "WriteRate": "off"}`)
	inBubble(t, config{timeouts: file}, func(t *testing.T, pipes *idletest.Listener, hup chan<- os.Signal, _ func()) {
		conn, err := pipes.Dial()
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(conn, "GET / HTTP/1.1\r\nHost: any\r\n\r\n")
		in := bufio.NewReader(conn)
		if response, err := http.ReadResponse(in, nil); err != nil || response.StatusCode != http.StatusOK {
			t.Fatal(response, err)
		}
		time.Sleep(time.Hour)
		for _, text := range []string{`{"KeepAliveTimeout": "1h20s"}`, `{"KeepAliveTimeout": "20"}`} {
			write(text)
			hup <- syscall.SIGHUP
			synctest.Wait()
		}
		begun := time.Now()
		if body, err := io.ReadAll(in); err != nil || !strings.HasPrefix(string(body), "hello, ") {
			t.Errorf("%q, %v", body, err)
		}
		if waited := time.Since(begun).Round(time.Second); waited != 20*time.Second {
			t.Errorf("the connection was closed after %v", waited)
		}
	})
}

// TestReadiness: a balancer is told that the server leaves while it still accepts.
func TestReadiness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := idlehttp.Wrap(new(http.Server), idletest.NewListener(), idlehttp.Timeouts{})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		mux := http.NewServeMux()
		readiness(l)(nil, mux)
		ctx, stop := context.WithCancel(t.Context())
		for _, want := range []int{http.StatusOK, http.StatusServiceUnavailable} {
			w := httptest.NewRecorder()
			mux.ServeHTTP(w, httptest.NewRequest("GET", "/readyz", nil))
			if w.Code != want {
				t.Errorf("/readyz answers %d, want %d", w.Code, want)
			}
			go idlehttp.LameDuck(ctx, time.Hour, l)
			synctest.Wait()
		}
		stop()
	})
}

// TestRefused: what is wrong in a file or an address is named.
func TestRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "timeouts.json")
	for text, want := range map[string]string{
		`{"Body": "1m"}`: "Body", `{"BodyTimeout": "long"}`: "BodyTimeout", `{"BodyRate": "fast"}`: "BodyRate", `{"OnEnd": "off"}`: "OnEnd", `{`: "JSON",
	} {
		os.WriteFile(file, []byte(text), 0o600)
		if _, err := readTimeouts(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, address := range []string{"fd:", "fd:2", "fd:x"} {
		if _, err := listen(address); err == nil || !strings.Contains(err.Error(), `-address is "`+address) {
			t.Errorf("%s: %v", address, err)
		}
	}
}
