// Package ops has what the operators of the example servers look at.
package ops

import (
	"log"
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/idlewheel/idlewheel/adapters/idledebug"
	"github.com/idlewheel/idlewheel/adapters/idlehttp"
	"github.com/idlewheel/idlewheel/adapters/idleprom"
	"github.com/idlewheel/idlewheel/idle"
)

// Serve serves the page of trackers and their metrics at an address of their own, or
// nowhere if that is empty. If it cannot listen there, it says so, and the example goes on
// without. The page answers to this machine only. The metrics answer to anyone who reaches
// the address. Each of more may add metrics and pages of its own.
func Serve(address string, trackers map[string]*idle.Tracker, more ...func(*prometheus.Registry, *http.ServeMux)) error {
	if address == "" {
		return nil
	}
	handler, err := Handler(trackers, more...)
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", address)
	if err != nil {
		log.Printf("no page about the connections, and no metrics: %v; choose another address by -ops", err)
		return nil
	}
	log.Printf("a page is on http://%v/, metrics are on /metrics", ln.Addr())
	go func() { log.Print(idlehttp.Serve(&http.Server{Handler: handler}, ln, idlehttp.Timeouts{})) }()
	return nil
}

// Handler has the page of trackers and their metrics for Prometheus, if there are any, those of the process and
// of the Go runtime, and what each of more adds.
func Handler(trackers map[string]*idle.Tracker, more ...func(*prometheus.Registry, *http.ServeMux)) (http.Handler, error) {
	mux, registry := http.NewServeMux(), prometheus.NewRegistry()
	registry.MustRegister(collectors.NewBuildInfoCollector(), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if len(trackers) > 0 {
		page, err := idledebug.New(trackers, nil)
		if err != nil {
			return nil, err
		}
		metrics, err := idleprom.New(trackers, nil)
		if err != nil {
			return nil, err
		}
		mux.Handle("/", page)
		registry.MustRegister(metrics)
	}
	for _, add := range more {
		add(registry, mux)
	}
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	return mux, nil
}
