package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/idlewheel/idlewheel/adapters/idledebug"
	"github.com/idlewheel/idlewheel/adapters/idleprom"
	"github.com/idlewheel/idlewheel/idle"
)

const httpUsage = "while it runs, serve a page about the tracker, and /metrics, at this `address`, such as :6060, which is on loopback only; " +
	"on loopback it can also end connections, without -scenario, and those count as closed rightly, and change limits, and then there is no verdict; " +
	"at another host, who reaches it may look, but not more"

// A site serves the page of a run over HTTP.
type site struct {
	ln      net.Listener // nil: nothing is served
	server  *http.Server
	steer   bool
	foreign bool // not on loopback only

	limitsChanged atomic.Bool // by somebody on the page
}

// watch notes changes of limits that page carries out.
func (s *site) watch(page http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/limits" {
			page.ServeHTTP(w, r)
			return
		}
		answer := &answer{w, http.StatusOK}
		page.ServeHTTP(answer, r)
		if answer.status == http.StatusOK {
			s.limitsChanged.Store(true)
		}
	})
}

// An answer keeps its status.
type answer struct {
	http.ResponseWriter
	status int
}

func (a *answer) WriteHeader(status int) {
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

// checkHTTP checks the address, and completes it.
func (c *config) checkHTTP() error {
	if c.http == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(c.http)
	switch {
	case err != nil || port == "":
		return fmt.Errorf("-http is %q; it must be host:port, or :port for loopback only", c.http)
	case c.sockets > 0:
		return fmt.Errorf("-http is %q with -sockets; it is for mock connections", c.http)
	case host == "":
		c.http = net.JoinHostPort("127.0.0.1", port)
	}
	return nil
}

// listen opens the site. Who asks before serve is called has to wait.
func (c *config) listen() (s *site, err error) {
	s = &site{}
	if c.http == "" {
		return s, nil
	}
	if s.ln, err = net.Listen("tcp", c.http); err != nil {
		return s, fmt.Errorf("-http is %q: %w", c.http, err)
	}
	at, err := netip.ParseAddrPort(s.ln.Addr().String())
	s.foreign = err != nil || !at.Addr().IsLoopback()
	s.steer = !s.foreign && !c.scenario.steers()
	return s, nil
}

// serve serves the page of t until close is called, and says where, and what can be done there.
func (s *site) serve(t *idle.Tracker, stderr io.Writer) error {
	if s.ln == nil {
		return nil
	}
	opts := &idledebug.Options{Steer: s.steer}
	if s.foreign {
		opts.Authorize = func(*http.Request) bool { return true }
	}
	page, err := idledebug.New(map[string]*idle.Tracker{"loadtest": t}, opts)
	if err != nil {
		return err
	}
	metrics, err := idleprom.New(map[string]*idle.Tracker{"loadtest": t}, nil)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics)
	mux := http.NewServeMux()
	mux.Handle("/", s.watch(page))
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))

	quiet := log.New(io.Discard, "", 0) // a browser that goes away is none of this program's errors
	s.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ErrorLog: quiet}
	go s.server.Serve(s.ln)
	at := "http://" + s.ln.Addr().String() + "/"
	fmt.Fprintf(stderr, "the page is at %s\nmetrics are at %smetrics\n", at, at)
	if s.steer {
		fmt.Fprintln(stderr, "who opens the page on this machine can end connections, and change limits, but then the oracle cannot judge")
	}
	return nil
}

// close closes the site and its connections.
func (s *site) close() {
	if s.ln != nil {
		s.ln.Close()
	}
	if s.server != nil {
		s.server.Close()
	}
}

// label is what a connection is called on the page.
func label(owner any) string {
	p := owner.(*peer)
	return fmt.Sprintf("%d %s", p.id, p.kind)
}
