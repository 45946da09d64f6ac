package node

import (
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/idlewheel/idlewheel/examples/fleet/directory"
)

// observe adds what an operator needs to see of a node: metrics of its part in the fleet, and
// whether a balancer should send it clients.
func (n *Node) observe(registry *prometheus.Registry, mux *http.ServeMux) {
	to := prometheus.WrapRegistererWith(prometheus.Labels{"fleet": n.config.Fleet, "node": n.name}, registry)
	gauge := func(name, help string, value func() float64) {
		to.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "fleet", Name: name, Help: help}, value))
	}
	counter := func(name, help string, value func() uint64) {
		to.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: "fleet", Name: name, Help: help},
			func() float64 { return float64(value()) }))
	}
	gauge("ready", "1 while newcomers are welcome: /readyz answers 200.", func() float64 { return number(n.unready() == "") })
	gauge("lease_held", "1 while the node surely has its lease.", func() float64 { return number(n.leaser.held()) })
	gauge("lease_age_seconds", "Time since the lease was renewed; 0 if there is none.", func() float64 {
		if at := n.leaser.renewed.Load(); at != nil {
			return time.Since(*at).Seconds()
		}
		return 0
	})
	counter("leases_begun_total", "Leases that the node has had: 1, and one more each time that it lost its lease.", n.leaser.count.Load)
	gauge("engine_connected", "1 while the node is connected to NATS.", func() float64 { return number(n.nc.IsConnected()) })
	gauge("limits_refused", "1 while the node refuses the limits that were set last.", func() float64 { return number(n.control.last().Refused != "") })
	gauge("directory_ready", "1 while the directories of this process miss nothing that a node has told.", func() float64 { return number(n.ready()) })
	gauge("directory_clients", "Clients in the directories of this process, of all nodes.", func() float64 { return float64(n.sum(func(d *directory.Directory) uint64 { return uint64(d.Size()) })) })
	gauge("clients", "Clients of this node that have said hello.", func() float64 { return float64(n.lease().Clients) })
	gauge("engine_messages_waiting", "Messages to the engine that wait in the node.", func() float64 { return float64(len(n.outbox)) })
	gauge("draining", "1 while the node sends its clients to other nodes.", func() float64 { return number(n.draining.Load()) })
	counter("frames_dropped_total", "Frames for which there was no way; clients repeat them.", n.dropped.Load)
	counter("batches_missed_total", "Batches of other nodes that did not come, or came out of order.", func() uint64 { return n.sum(func(d *directory.Directory) uint64 { return d.Gaps.Load() }) })
	counter("snapshots_asked_total", "Snapshots that the directories have asked nodes for.", func() uint64 { return n.sum(func(d *directory.Directory) uint64 { return d.Snapshots.Load() }) })
	mux.HandleFunc("GET /readyz", n.readyz)
}

// readyz answers 200 while newcomers are welcome, and 503 with the reason otherwise.
func (n *Node) readyz(w http.ResponseWriter, _ *http.Request) {
	if why := n.unready(); why != "" {
		http.Error(w, why, http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ready")
}

// unready says why a balancer should send this node nobody, or nothing. A node that has had a
// lease goes on serving while NATS is away, so it stays ready then.
func (n *Node) unready() string {
	switch {
	case n.draining.Load():
		return "draining"
	case n.presence.speaksUnder() == 0:
		return "the node has not had a lease yet"
	}
	return ""
}

// sum adds up something of the directories here.
func (n *Node) sum(of func(*directory.Directory) uint64) (total uint64) {
	for _, d := range n.directories {
		total += of(d)
	}
	return total
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
