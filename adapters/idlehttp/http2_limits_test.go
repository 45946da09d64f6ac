package idlehttp

import (
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/idle"
)

// Handlers of the tests in virtual time.

func reads(_ http.ResponseWriter, r *http.Request)  { io.Copy(io.Discard, r.Body) }
func writes(w http.ResponseWriter, r *http.Request) { w.Write(httpsuite.Large) }
func waits(_ http.ResponseWriter, r *http.Request)  { <-r.Context().Done() }

// answers writes a small response, the end of which is written before net/http tells that
// the connection is idle.
func answers(w http.ResponseWriter, _ *http.Request) {
	http.NewResponseController(w).Flush()
	time.Sleep(ms)
	w.Write(make([]byte, 4096))
}

// A connection without streams is closed when the keep-alive timeout has passed since the
// last response, and its client is told so. Frames that do not open a stream keep nothing.
func TestHTTP2KeepAlive(t *testing.T) {
	virtual(t, Timeouts{}, defaultWindow, answers, func(t *testing.T, f framed) {
		f.get(1)
		time.Sleep(time.Minute)
		f.get(3)
		last := time.Now()
		f.again(ping, 10*time.Second)
		f.wantGoAway()
		if took := f.Drain().Sub(last); took < 75*time.Second || took > 77*time.Second {
			t.Errorf("it took %v", took)
		}
		f.site.WantOnly(1, "keep-alive", idle.ReasonPhase)
	})
}

// OnTimeout is asked about streams as well. One that is kept has its limit anew.
func TestHTTP2OnTimeout(t *testing.T) {
	var mu sync.Mutex
	asked := map[net.Conn]int{}
	limits := Timeouts{WriteTimeout: time.Second, OnTimeout: func(c net.Conn, err *idle.TimeoutError) bool {
		mu.Lock()
		defer mu.Unlock()
		if c.RemoteAddr() == nil || err.Phase != "request stream" || err.Reason != idle.ReasonWrite || err.Setting != "WriteTimeout" {
			t.Errorf("asked about %v: %v", c.RemoteAddr(), err)
		}
		asked[c]++
		return asked[c] < 3
	}}
	virtual(t, limits, noWindow, writes, func(t *testing.T, f framed) {
		begun := f.open(1, getBlock, endStream)
		httpsuite.NotBefore(t, f.wantReset(1), begun, 3*limits.WriteTimeout)
		f.site.wantReset(1)
	})
}

// TestHTTP2ConnectionsAreWhatEnds: a connection with streams that end, and one that is reset,
// is in OnEnds once.
func TestHTTP2ConnectionsAreWhatEnds(t *testing.T) {
	var mu sync.Mutex
	var ends []idle.End
	limits := Timeouts{WriteTimeout: time.Second, Idle: idle.Options{OnEnds: func(all []idle.End) {
		mu.Lock()
		defer mu.Unlock()
		ends = append(ends, all...)
	}}}
	virtual(t, limits, noWindow, writes, func(t *testing.T, f framed) {
		for _, stream := range []uint32{1, 3, 5} {
			f.open(stream, getBlock, endStream)
			f.wantReset(stream)
		}
		f.site.wantReset(3)
		f.Close()
		f.site.Settled()
		time.Sleep(time.Second)
		synctest.Wait()
	})
	t.Cleanup(func() { // when both are over, with TLS and without, as they run side by side
		if len(ends) != 2 || slices.ContainsFunc(ends, func(e idle.End) bool { return e.Label == "" }) {
			t.Errorf("%+v", ends)
		}
	})
}

// TestHTTP2EndsOfResponses: a client that doesn't take small responses, which only net/http can send when their handler
// has returned, is ended with its connection when eight of them have piled up, whatever else it does.
func TestHTTP2EndsOfResponses(t *testing.T) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "POST" {
			waits(w, r)
		}
		w.Write(make([]byte, 10))
	}
	virtual(t, Timeouts{}, noWindow, handler, func(t *testing.T, f framed) {
		f.open(1, postBlock, endStream)
		begun := time.Now()
		for i := range uint32(8) {
			f.open(3+2*i, getBlock, endStream)
		}
		f.again(ping, time.Second)
		if took := f.Drain().Sub(begun); took < 5*time.Second || took > 6*time.Second {
			t.Errorf("it took %v", took)
		}
		if st := f.site.Settled(); st.Limits["WriteRate"] != 1 || st.Shed != 1 {
			t.Errorf("%+v", st)
		}
	})
}

// TestHTTP2EndsOfResponsesTaken: a client that takes them in time lives.
func TestHTTP2EndsOfResponsesTaken(t *testing.T) {
	virtual(t, Timeouts{}, noWindow, func(w http.ResponseWriter, r *http.Request) { w.Write(make([]byte, 10)) }, func(t *testing.T, f framed) {
		for i := range uint32(20) {
			f.open(1+2*i, getBlock, endStream)
		}
		time.Sleep(4 * time.Second)
		for i := range uint32(20) {
			f.update(1+2*i, 10)
			f.wantEnd(1 + 2*i)
		}
		time.Sleep(20 * time.Second)
		f.site.wantReset(0)
	})
}
