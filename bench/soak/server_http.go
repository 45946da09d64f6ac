package main

import (
	"io"
	"log"
	"net"
	"net/http"

	"github.com/idlewheel/idlewheel/adapters/idlehttp"
	"github.com/idlewheel/idlewheel/idle"
)

func startHTTP(s *server) error {
	s.lives = httpLives()
	return startNetHTTP(s, false)
}

func startHTTP2(s *server) error {
	s.lives = http2Lives()
	return startNetHTTP(s, true)
}

func startHijack(s *server) error {
	s.lives = hijackLives()
	return startNetHTTP(s, false)
}

// startNetHTTP starts a net/http server.
func startNetHTTP(s *server, secure bool) error {
	h := &http.Server{
		Handler:  pages(s.ledger),
		ErrorLog: log.New(io.Discard, "", 0), // of handshakes that are cut off
	}
	if secure {
		config, err := certificate()
		if err != nil {
			return err
		}
		h.TLSConfig = config
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	t := httpTimeouts()
	t.OnTimeout = func(c net.Conn, err *idle.TimeoutError) bool {
		s.ledger.timedOut(c.RemoteAddr(), err.Reason)
		return false
	}
	l, err := idlehttp.NewListener(h, ln, t)
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if secure {
			h.ServeTLS(l, "", "")
		} else {
			h.Serve(l)
		}
	}()
	s.address = ln.Addr().String()
	s.stats = func() idle.Stats { return l.Stats().Stats }
	s.stop = func() error {
		err := h.Close()
		<-ended
		return err
	}
	return nil
}

// pages is what all net/http servers serve.
func pages(l *ledger) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+pathPage, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, pageText) })
	mux.HandleFunc("GET "+pathStream, func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := w.Write(stream[:64<<10]); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("POST "+pathBody, func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			io.WriteString(w, pageText)
		}
	})
	mux.HandleFunc("GET "+pathHang, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("GET "+pathPings, func(w http.ResponseWriter, r *http.Request) { pingHijacked(l, w, r) })
	return mux
}

// pingHijacked takes a connection over and pings it, as one does with a
// WebSocket.
func pingHijacked(l *ledger, w http.ResponseWriter, r *http.Request) {
	c, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: pings\r\n\r\n"); err != nil {
		return
	}
	err = idlehttp.Watch(r, pingPolicy(), func() error {
		_, err := c.Write([]byte{ping})
		return err
	})
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, rw)
}
