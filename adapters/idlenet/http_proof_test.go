//go:build proof

package idlenet

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/intime"
	"github.com/idlewheel/idlewheel/idle"
)

// exchange makes a request by hand and returns the body of the response.
func exchange(t testing.TB, client net.Conn, in *bufio.Reader, request string) string {
	t.Helper()
	if _, err := io.WriteString(client, request); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func post(body string) string {
	return fmt.Sprintf("POST / HTTP/1.1\r\nHost: test\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

func TestHTTPKeepAliveConnectionIsClosedWhenIdle(t *testing.T) {
	t.Parallel()
	const limit = 300 * time.Millisecond
	tracker := newTracker(t, idle.Policy{IdleTimeout: limit})
	client, err := net.Dial("tcp", serveHTTP(t, tracker, echoBody))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	in := bufio.NewReader(client)
	last := time.Time{}
	inTime := intime.Of(t, limit/3)
	for range 3 {
		last = time.Now()
		if got := exchange(inTime, client, in, post("hello")); got != "hello" {
			t.Errorf("got %q", got)
		}
		time.Sleep(limit / 10)
	}
	_, err = in.ReadByte()
	if err != io.EOF {
		t.Errorf("got %v, want EOF", err)
	}
	notBefore(t, time.Now(), last, limit)
	eventually(t, "counted", func() bool { return tracker.Stats().TimedOut[idle.ReasonIdle] == 1 })
}

func TestHTTPHeaderThatStallsIsClosed(t *testing.T) {
	t.Parallel()
	tracker := newTracker(t, idle.Policy{ReadTimeout: 200 * time.Millisecond})
	client, err := net.Dial("tcp", serveHTTP(t, tracker, echoBody))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	io.WriteString(client, "GET / HTTP/1.1\r\nHo")
	if err, _ := await(t, func() error { return readAll(client) }); err != io.EOF {
		t.Errorf("got %v, want EOF", err)
	}
	if n := tracker.Stats().TimedOut[idle.ReasonRead]; n != 1 {
		t.Errorf("%d read timeouts", n)
	}
}

func TestHTTPBodyThatStallsFailsTheHandler(t *testing.T) {
	t.Parallel()
	failed := make(chan error, 1)
	tracker := newTracker(t, idle.Policy{ReadTimeout: 200 * time.Millisecond})
	address := serveHTTP(t, tracker, func(w http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		failed <- err
	})
	inTime := intime.Of(t, 50*time.Millisecond)
	client, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	io.WriteString(client, "POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 100\r\n\r\nhalf")
	readAll(client)
	select {
	case err := <-failed:
		wantTimeout(t, err, idle.ReasonRead)
	case <-time.After(patience):
		inTime.Fatal("the handler has not been called")
	}
}

// net/http reads in the background while a handler runs, so that ReadTimeout
// includes the time of the handler here. It is what idlehttp is for.
func TestHTTPHandlerLongerThanReadTimeout(t *testing.T) {
	t.Parallel()
	const limit = 200 * time.Millisecond
	proceed := make(chan struct{})
	defer close(proceed)
	tracker := newTracker(t, idle.Policy{ReadTimeout: limit}) // the server closes the connection only when the handler returns
	client, err := net.Dial("tcp", serveHTTP(t, tracker, func(w http.ResponseWriter, r *http.Request) {
		<-proceed // which comes after the timeout
		io.WriteString(w, "done")
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	client.SetReadDeadline(time.Now().Add(patience))
	io.WriteString(client, "GET / HTTP/1.1\r\nHost: test\r\n\r\n")
	if _, err = http.ReadResponse(bufio.NewReader(client), nil); err == nil {
		t.Error("there was a response: the documentation says otherwise")
	}
	if n := tracker.Stats().TimedOut[idle.ReasonRead]; n != 1 {
		t.Errorf("%d read timeouts", n)
	}
}
