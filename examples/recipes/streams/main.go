// Command streams serves an API, an event stream and large uploads, all of which a client of
// HTTP/2 sends over one connection.
//
//	go -C examples/recipes run ./streams
//	curl --http2-prior-knowledge -N http://127.0.0.1:8080/events
//	curl --http2-prior-knowledge -T large --limit-rate 50k http://127.0.0.1:8080/upload
//
// Requests of the API have ten seconds in all. Events and uploads may take hours, so their handlers
// set limits of their own. An upload has to bring 10 kB a second. The comments of KeepStream find
// clients of the event stream that have vanished.
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlehttp"
	"github.com/idlewheel/idlewheel/idle"
)

// slowly is the route of an API that takes too long.
const slowly = "GET /api/slowly"

func main() {
	ln, err := net.Listen("tcp", "127.0.0.1:8080")
	if err != nil {
		log.Fatal(err)
	}
	log.Print("serving on http://", ln.Addr())
	log.Fatal(serve(ln))
}

// serve serves HTTP/1, and HTTP/2 without TLS.
func serve(ln net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/time", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, time.Now().Format(time.TimeOnly))
	})
	mux.HandleFunc(slowly, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.Handle("GET /events", unlimited(idlehttp.KeepStream(http.HandlerFunc(events), 15*time.Second, ": \n\n"), idlehttp.RequestLimits{}))
	mux.Handle("PUT /upload", unlimited(http.HandlerFunc(upload), idlehttp.RequestLimits{
		BodyTimeout: time.Minute, // a pause of the client's
		BodyRate:    idle.Rate{BytesPerSecond: 10_000, Grace: time.Minute},
	}))
	server := &http.Server{Handler: mux, Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	return idlehttp.Serve(server, ln, idlehttp.Timeouts{
		HandlerTimeout: 10 * time.Second, // of requests of HTTP/1
		StreamTotal:    10 * time.Second, // of those of HTTP/2
	})
}

// unlimited has h serve requests that may take as long as they like, within limits.
func unlimited(h http.Handler, limits idlehttp.RequestLimits) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		own := limits
		if r.ProtoMajor == 1 {
			own.HandlerTimeout = idlehttp.Off
		} else {
			own.StreamTotal = idlehttp.Off
		}
		if err := idlehttp.SetLimits(r, own); err != nil {
			log.Print(err)
		}
		h.ServeHTTP(w, r)
	})
}

// events sends the time every ten minutes.
func events(w http.ResponseWriter, r *http.Request) {
	out := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	for err := out.Flush(); err == nil; err = out.Flush() {
		select {
		case now := <-time.After(10 * time.Minute):
			fmt.Fprintf(w, "data: %s\n\n", now.Format(time.TimeOnly))
		case <-r.Context().Done():
			return
		}
	}
}

// upload counts the bytes of a body.
func upload(w http.ResponseWriter, r *http.Request) {
	n, err := io.Copy(io.Discard, r.Body)
	if err != nil {
		log.Print(err)
		return
	}
	fmt.Fprintln(w, n, "bytes")
}
