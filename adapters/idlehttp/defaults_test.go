package idlehttp

import (
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// A pipeListener accepts what is sent to it: the server's ends of pipes, by
// which a server can be tested in virtual time.
type pipeListener chan net.Conn

func (l pipeListener) Accept() (net.Conn, error) {
	if nc, ok := <-l; ok {
		return nc, nil
	}
	return nil, net.ErrClosed
}

func (l pipeListener) Close() error   { close(l); return nil }
func (l pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// The zero value is what the documentation says, to the tick.
func TestDefaults(t *testing.T) {
	for name, test := range map[string]struct {
		text   []string // one after the other, a second between
		limit  time.Duration
		phase  string // any, if empty
		status int
	}{
		"handshake":        {nil, 10 * time.Second, "handshake", 0},
		"header":           {[]string{"GET"}, 10 * time.Second, "request header", http.StatusRequestTimeout},
		"header, trickled": {[]string{"G", "E", "T", " "}, 7 * time.Second, "request header", http.StatusRequestTimeout},
		"body, rate":       {[]string{post("10")}, 5 * time.Second, "request", http.StatusRequestTimeout},
		// 4096 bytes may be one Read; 10,000 buy 41 s and two thirds.
		"body, progress": {[]string{post("100000"), string(make([]byte, 12000))}, 30 * time.Second, "request", http.StatusRequestTimeout},
		"keep-alive":     {[]string{get("/")}, 75 * time.Second, "keep-alive", http.StatusOK},
		"streams":        {[]string{hello + request}, 300 * time.Second, "streams", 0},
		"response, rate": {[]string{get("/large")}, 5 * time.Second, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				accept := make(pipeListener)
				server := &http.Server{ErrorLog: silent(t), Protocols: new(http.Protocols)}
				server.Protocols.SetHTTP1(true)
				server.Protocols.SetUnencryptedHTTP2(true)
				server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					io.Copy(io.Discard, r.Body)
					switch {
					case r.ProtoMajor == 2:
						<-r.Context().Done()
					case r.URL.Path == "/large":
						w.Write(make([]byte, large))
					}
				})
				l, err := NewListener(server, accept, Timeouts{})
				if err != nil {
					t.Fatal(err)
				}
				served := make(chan error, 1)
				go func() { served <- server.Serve(l) }()
				if n := len(l.Stats().Phases); n != 7 {
					t.Errorf("there are %d phases", n)
				}

				const tick = 100 * ms // that of limits as long as these
				here, there := net.Pipe()
				defer here.Close()
				time.Sleep(tick / 3) // what arrives as a tick begins may be seen on either side of it
				accept <- there
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
				if name == "response, rate" { // nobody reads
					time.Sleep(10 * time.Second)
				} else {
					b, _ := io.ReadAll(here)
					if test.status != 0 && string(b[9:12]) != map[int]string{200: "200", 408: "408"}[test.status] {
						t.Errorf("got %.20q, want status %d", b, test.status)
					}
					if took := time.Since(last); took < test.limit || took > test.limit+2*tick {
						t.Errorf("it took %v, want %v", took, test.limit)
					}
				}
				server.Close()
				<-served
				synctest.Wait()
				st := l.Stats()
				if test.phase != "" && st.Phases[test.phase] != 1 || test.phase == "" && st.TimedOut[idle.ReasonMinWriteRate] != 1 {
					t.Errorf("timed out %v, in %v", st.TimedOut, st.Phases)
				}
			})
		})
	}
}
