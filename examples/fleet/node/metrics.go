package node

import (
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// observe adds the metrics of the node, and /readyz, which fails while a balancer should send it no
// clients. A node that has lost its lease still serves clients, so it stays ready.
func (n *node) observe(registry *prometheus.Registry, mux *http.ServeMux) {
	labeled := prometheus.WrapRegistererWith(prometheus.Labels{"fleet": n.config.Fleet, "node": n.config.Name}, registry)
	gauge := func(name, help string, value func() float64) {
		labeled.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "fleet", Name: name, Help: help}, value))
	}
	gauge("engine_connected", "1 while the node is connected to NATS.", func() float64 { return number(n.fleet.nc.IsConnected()) })
	gauge("lease_held", "1 while the node has its lease.", func() float64 {
		at := n.renewed.Load()
		return number(at != nil && time.Since(*at) < leaseTTL)
	})
	gauge("limits_refused", "1 while the node refuses the limits that were set last.", func() float64 { return number(n.lease().Refused != "") })
	gauge("clients", "Clients that have said hello.", func() float64 { return float64(n.lease().Clients) })
	labeled.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: "fleet", Name: "leases_begun_total",
		Help: "Leases that the node has had: 1, and another one each time that it lost its lease."}, func() float64 { return float64(n.leases.Load()) }))
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !n.open.Load() {
			http.Error(w, "the node is draining, or hasn't had a lease yet", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready")
	})
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
