package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/idlewheel/idlewheel/adapters/idlehttp"
)

func serveHTTP(variant string, cfg config, ln net.Listener, b *book) error {
	s := &http.Server{
		Handler:  http.HandlerFunc(handleHTTP),
		ErrorLog: log.New(io.Discard, "", 0), // there will be much about descriptors
		ConnState: func(nc net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				b.opened()
			case http.StateClosed:
				b.closed(nc)
			}
		},
	}
	s.Protocols = new(http.Protocols)
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetHTTP2(cfg.secure())
	s.Protocols.SetUnencryptedHTTP2(!cfg.secure())
	if variant == own {
		cfg.setHTTP(s)
	}
	if cfg.secure() {
		return serveTLS(s, variant, cfg, ln)
	}
	if variant == ours {
		return idlehttp.Serve(s, ln, cfg.httpTimeouts())
	}
	return s.Serve(ln)
}

// handleHTTP takes a body, and answers with as many bytes as the path says.
func handleHTTP(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	content, err := find(r.URL.Path)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	w.Write(content)
}

// find returns the content at a path, which is as many bytes as it says.
func find(path string) ([]byte, error) {
	n, err := strconv.Atoi(strings.TrimPrefix(path, "/"))
	if err != nil || n < 0 || n > len(film) {
		return nil, fmt.Errorf("the path is %q; it must be a number from 0 to %d", path, len(film))
	}
	return film[:n], nil
}

// film is what all content is a part of. It is shared, so that responses that
// wait take no memory of the server's.
var film [1 << 20]byte
