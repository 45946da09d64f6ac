package main

import (
	"log"
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/idlewheel/idlewheel/adapters/idlehttp"
	"github.com/idlewheel/idlewheel/adapters/idleprom"
	"github.com/idlewheel/idlewheel/idle"
)

// serveOps serves what operators look at on an address of its own, or nowhere if that is
// empty. It should be an address that only they can reach.
func serveOps(address string, trackers map[string]*idle.Tracker) error {
	if address == "" {
		return nil
	}
	handler, err := opsHandler(trackers)
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	log.Printf("metrics are on http://%v/metrics", ln.Addr())
	go func() { log.Print(idlehttp.Serve(&http.Server{Handler: handler}, ln, idlehttp.Timeouts{})) }()
	return nil
}

// opsHandler has the metrics of the trackers, for Prometheus.
func opsHandler(trackers map[string]*idle.Tracker) (http.Handler, error) {
	metrics, err := idleprom.New(trackers, nil)
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	return mux, nil
}
