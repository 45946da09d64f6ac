package idlehttp

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/idle"
)

// A pipeListener accepts what is sent to it: the server's ends of pipes, by
// which a server can be tested in virtual time.
type pipeListener struct {
	conns chan net.Conn
	end   func()
}

func newPipeListener() pipeListener {
	conns := make(chan net.Conn)
	return pipeListener{conns, sync.OnceFunc(func() { close(conns) })}
}

func (l pipeListener) Accept() (net.Conn, error) {
	if nc, ok := <-l.conns; ok {
		return nc, nil
	}
	return nil, net.ErrClosed
}

func (l pipeListener) Close() error { l.end(); return nil }
func (pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// The zero value is what the documentation says, to the tick. Settings that
// are off by default are set here. Every timeout that is reported names its setting.
func TestDefaults(t *testing.T) {
	for name, test := range map[string]struct {
		text           []string // one after the other, a second between
		limit          time.Duration
		phase, setting string
		status         int
		set            Timeouts
	}{
		"handshake":        {nil, 10 * time.Second, "handshake", "HandshakeTimeout", 0, Timeouts{}},
		"header":           {[]string{"GET"}, 10 * time.Second, "request header", "HeaderTimeout", http.StatusRequestTimeout, Timeouts{}},
		"header, trickled": {[]string{"G", "E", "T", " "}, 7 * time.Second, "request header", "HeaderTimeout", http.StatusRequestTimeout, Timeouts{}},
		"body, rate":       {[]string{httpsuite.Post(10)}, 5 * time.Second, "request", "BodyRate", http.StatusRequestTimeout, Timeouts{}},
		// 4096 bytes may be one Read; 10,000 buy 41 s and two thirds.
		"body, progress":     {[]string{httpsuite.Post(100000), string(make([]byte, 12000))}, 30 * time.Second, "request", "BodyTimeout", http.StatusRequestTimeout, Timeouts{}},
		"handler":            {[]string{httpsuite.Get("/long")}, 60 * time.Second, "request", "HandlerTimeout", http.StatusServiceUnavailable, Timeouts{HandlerTimeout: time.Minute}},
		"keep-alive":         {[]string{httpsuite.Get("/")}, 75 * time.Second, "keep-alive", "KeepAliveTimeout", http.StatusOK, Timeouts{}},
		"streams":            {[]string{hello + request}, 300 * time.Second, "streams", "StreamTimeout", 0, Timeouts{}},
		"HTTP/2 keep-alive":  {[]string{hello}, 75 * time.Second, "keep-alive", "KeepAliveTimeout", 0, Timeouts{}},
		"HTTP/2 header":      {[]string{hello + request[:9]}, 10 * time.Second, "request header", "HeaderTimeout", 0, Timeouts{}},
		"hijacked":           {[]string{httpsuite.Get("/hijack")}, 20 * time.Second, "hijacked", "IdleTimeout", 0, Timeouts{Hijacked: idle.Policy{IdleTimeout: 20 * time.Second}}},
		"response, rate":     {[]string{httpsuite.Get("/large")}, 5 * time.Second, "request", "WriteRate", 0, Timeouts{}},
		"response, progress": {[]string{httpsuite.Get("/large")}, 4 * time.Second, "request", "WriteTimeout", 0, Timeouts{WriteTimeout: 4 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				accept := newPipeListener()
				server := &http.Server{ErrorLog: silent(t), Protocols: new(http.Protocols)}
				server.Protocols.SetHTTP1(true)
				server.Protocols.SetUnencryptedHTTP2(true)
				var told []*idle.TimeoutError
				tell := func(err error) {
					var timeout *idle.TimeoutError
					if errors.As(err, &timeout) {
						told = append(told, timeout)
					}
				}
				server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, err := io.Copy(io.Discard, r.Body)
					switch {
					case r.ProtoMajor == 2, r.URL.Path == "/long":
						<-r.Context().Done()
					case r.URL.Path == "/large":
						_, err = w.Write(httpsuite.Large)
					case r.URL.Path == "/hijack":
						nc, _, _ := http.NewResponseController(w).Hijack()
						defer nc.Close()
						_, err = nc.Read(make([]byte, 1))
					}
					tell(err)
				})
				test.set.OnTimeout = func(_ net.Conn, err *idle.TimeoutError) bool {
					tell(err)
					return false
				}
				l, err := NewListener(server, accept, test.set)
				if err != nil {
					t.Fatal(err)
				}
				served := make(chan error, 1)
				go func() { served <- server.Serve(l) }()
				if st := l.Stats(); len(st.Phases) != 7 || len(st.Limits) != 9 {
					t.Errorf("there are counts of %v and %v", st.Phases, st.Limits)
				}

				const tick = 100 * ms // that of limits as long as these
				here, there := net.Pipe()
				defer here.Close()
				time.Sleep(tick / 3) // what arrives as a tick begins may be seen on either side of it
				accept.conns <- there
				last := time.Now()
				go func() {
					for i, text := range test.text {
						if i > 0 {
							time.Sleep(time.Second)
						}
						last = time.Now()
						io.WriteString(here, text)
					}
				}()
				if strings.HasPrefix(name, "response") { // nobody reads
					time.Sleep(10 * time.Second)
				} else {
					in := bufio.NewReader(here)
					line, _ := in.Peek(len("HTTP/1.1 200"))
					took := time.Since(last)
					io.Copy(io.Discard, in)
					if test.status < 400 { // otherwise the answer counts: net/http may wait before it closes the connection
						took = time.Since(last)
					}
					if test.status != 0 && string(line[9:]) != strconv.Itoa(test.status) {
						t.Errorf("got %q, want status %d", line, test.status)
					}
					if took < test.limit || took > test.limit+2*tick {
						t.Errorf("it took %v, want %v", took, test.limit)
					}
				}
				server.Close()
				<-served
				synctest.Wait()
				st := l.Stats()
				if st.Phases[test.phase] != 1 || st.Limits[test.setting] != 1 {
					t.Errorf("timed out %v, in %v, by %v", st.TimedOut, st.Phases, st.Limits)
				}
				byHandler := map[string]int{"BodyRate": 1, "BodyTimeout": 1, "WriteRate": 1, "WriteTimeout": 1, "IdleTimeout": 1}[test.setting]
				if len(told) != 1+byHandler {
					t.Errorf("OnTimeout and the handler were told of %v", told)
				}
				for _, err := range told {
					want := "i/o timeout: " + test.phase + ": " + test.setting + " of "
					if err.Phase != test.phase || err.Setting != test.setting || !strings.HasPrefix(err.Error(), want) {
						t.Errorf("told of %+v, %v, want %s...", *err, err, want)
					}
				}
			})
		})
	}
}
