//go:build proof

package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/idlewheel/idlewheel/adapters/idlehttp"
	"github.com/idlewheel/idlewheel/idle"
)

// patience is for what does come, however busy the machine is.
const patience = 30 * time.Second

// A site is a server that runs until the end of the test.
type site struct {
	plain, secure string
	client        *http.Client // trusts it, and would rather speak HTTP/2
}

func start(t *testing.T, beat idle.Heartbeat) site {
	t.Helper()
	log.SetOutput(t.Output())
	listen := func() net.Listener {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return ln
	}
	plain, secure := listen(), listen()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- serve(ctx, plain, secure, beat, "", "", 0, idle.Drain{ForceAfter: patience}) }()
	t.Cleanup(func() {
		cancel()
		transport.CloseIdleConnections()
		if err := <-done; err != nil {
			t.Error("serve:", err)
		}
		log.SetOutput(io.Discard)
	})
	return site{"http://" + plain.Addr().String(), "https://" + secure.Addr().String(), &http.Client{Transport: transport}}
}

// news is an event, as the page gets it.
type news struct {
	Member  member
	Members map[int]member
	Text    string
	Via     string
}

// follow returns what /events tells.
func (s site) follow(t *testing.T, base string) <-chan news {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, "GET", base+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	all := make(chan news, 1000)
	go func() {
		defer close(all)
		in := bufio.NewScanner(res.Body)
		for in.Scan() {
			var n news
			if data, ok := strings.CutPrefix(in.Text(), "data: "); ok && json.Unmarshal([]byte(data), &n) == nil {
				all <- n
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		res.Body.Close()
		for range all {
		}
	})
	return all
}

// await waits for news of a kind, and returns it.
func await(t *testing.T, all <-chan news, what string, is func(news) bool) news {
	t.Helper()
	late := time.After(patience)
	for {
		select {
		case n, ok := <-all:
			if !ok {
				t.Fatal("the events have ended before", what)
			}
			if is(n) {
				return n
			}
		case <-late:
			t.Fatal("waited in vain for", what)
		}
	}
}

// join opens a WebSocket that reads, and so answers pings, until the test ends.
func (s site) join(t *testing.T, base string) *websocket.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ws, _, err := websocket.Dial(ctx, base+"/ws", &websocket.DialOptions{HTTPClient: s.client})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := ws.Read(ctx); err != nil { // its number
		t.Fatal(err)
	}
	ws.CloseRead(context.Background())
	t.Cleanup(func() { ws.CloseNow() })
	return ws
}

func TestPage(t *testing.T) {
	s := start(t, idle.Heartbeat{Interval: time.Minute, Timeout: time.Minute})
	for base, proto := range map[string]string{s.plain: "HTTP/1.1", s.secure: "HTTP/2.0"} {
		res, err := s.client.Get(base + "/")
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.Proto != proto || string(body) != string(page) {
			t.Errorf("%s: %s, %s, %d bytes", base, res.Proto, res.Status, len(body))
		}
		first := await(t, s.follow(t, base), "the first event", func(news) bool { return true })
		if !strings.HasPrefix(first.Via, proto) || first.Members == nil {
			t.Errorf("%s: the first event is %+v", base, first)
		}
	}
}

// TestHeartbeat has one client answer all pings, over TLS, and another one only
// the first: that one is dropped, and the other lives on.
func TestHeartbeat(t *testing.T) {
	s := start(t, idle.Heartbeat{Interval: 300 * time.Millisecond, Timeout: 3 * time.Second, Misses: 2})
	events := s.follow(t, s.secure)
	s.join(t, s.secure)
	honest := await(t, events, "the honest one", func(n news) bool { return strings.HasPrefix(n.Text, "is here") }).Member.ID
	res, err := s.client.Post(s.plain+"/mute", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Fatal("mute: ", res.Status)
	}
	mute := await(t, events, "the mute one", func(n news) bool { return strings.HasPrefix(n.Text, "is here") }).Member.ID
	await(t, events, "a miss of it", func(n news) bool { return n.Member.ID == mute && n.Member.Misses == 1 })
	gone := await(t, events, "a drop", func(n news) bool { return n.Member.State == "gone" })
	if m := gone.Member; m.ID != mute || m.Pings < 3 || m.Misses != 2 || !strings.Contains(gone.Text, "websocket: Heartbeat of") {
		t.Errorf("#%d, after %d pings and %d misses, %s; want #%d after at least 3 and 2", m.ID, m.Pings, m.Misses, gone.Text, mute)
	}
	for range 2 {
		await(t, events, "an answer of the honest one", func(n news) bool {
			if n.Member.State == "gone" {
				t.Error("an honest one is gone, too")
			}
			return n.Member.ID == honest && n.Text == "answers"
		})
	}
}

// TestLeave: one who says something is heard; one who leaves is gone at once.
func TestLeave(t *testing.T) {
	s := start(t, idle.Heartbeat{Interval: time.Minute, Timeout: time.Minute})
	events := s.follow(t, s.plain)
	ws := s.join(t, s.plain)
	if err := ws.Write(context.Background(), websocket.MessageText, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	await(t, events, "a hello", func(n news) bool { return n.Text == `says "hello"` })
	ws.Close(websocket.StatusNormalClosure, "")
	gone := await(t, events, "an end", func(n news) bool { return n.Member.State == "gone" })
	if gone.Member.Pings != 0 || !strings.Contains(gone.Text, "has left") {
		t.Errorf("after %d pings: %s", gone.Member.Pings, gone.Text)
	}
}

// TestReadiness: a balancer is told that the server leaves while it still serves.
func TestReadiness(t *testing.T) {
	ln, err := listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "served") })}
	l, err := idlehttp.Wrap(server, ln, idlehttp.Timeouts{})
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(l)
	defer server.Close()
	mux := http.NewServeMux()
	readiness(l)(nil, mux)
	status := func() int {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest("GET", "/readyz", nil))
		return w.Code
	}
	if got := status(); got != http.StatusOK {
		t.Errorf("before: %d", got)
	}
	ctx, stop := context.WithCancel(context.Background())
	left := make(chan error, 1)
	go func() { left <- idlehttp.LameDuck(ctx, time.Hour, l) }()
	for deadline := time.Now().Add(patience); status() == http.StatusOK; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it is ready, although it leaves")
		}
	}
	resp, err := http.Get("http://" + ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK || !resp.Close {
		t.Errorf("status %d, asked to close: %v", resp.StatusCode, resp.Close)
	}
	stop()
	<-left
}
