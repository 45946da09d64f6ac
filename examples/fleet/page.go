package main

import (
	_ "embed"
	"encoding/json"
	"log"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlehttp"
	"github.com/idlewheel/idlewheel/examples/fleet/node"
)

//go:embed page.html
var pageHTML []byte

// servePage serves the page of the fleet. It asks the nodes when somebody looks, once a
// second at most.
func (f *fleet) servePage() {
	ln, err := net.Listen("tcp", f.ops)
	if err != nil {
		f.out("no page: %v; choose another address by -ops", err)
		return
	}
	f.out("a page is on http://%v/", ln.Addr())
	var mu sync.Mutex
	var states []node.State
	var at time.Time
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { w.Write(pageHTML) })
	mux.HandleFunc("GET /api/nodes", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(at) > 900*time.Millisecond {
			states, _ = f.nc.States(r.Context(), f.processCount(), time.Second/2)
			at = time.Now()
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(states)
	})
	go func() { log.Print(idlehttp.Serve(&http.Server{Handler: local(mux)}, ln, idlehttp.Timeouts{})) }()
}

// local answers only to a browser on this machine that means this machine. A website whose
// name resolves to 127.0.0.1 is refused.
func local(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.IsLoopback()) {
			http.Error(w, "this page is for loopback only", http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}
