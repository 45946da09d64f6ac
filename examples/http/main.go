// Command http is a net/http server with HTTP/2 and WebSockets that slow or silent clients can't
// hold, and that can be replaced without a failed request.
//
//	go run ./examples/http
//	curl -i http://127.0.0.1:9005
//	nc 127.0.0.1 9005       # type nothing, and the server disconnects you after 10 seconds
//
// A WebSocket on /ws echoes messages. If it's silent for 30 seconds, it's pinged, and dropped if it
// doesn't answer.
//
// SIGTERM or Ctrl-C drains the server. Within 3 seconds it asks all clients to close their
// connections, those that have been idle longest first. It finishes requests that take less than 10
// seconds. Behind a balancer, -lame-duck 10s has /readyz fail for that long before the drain begins.
//
// SIGHUP reads the timeouts again, which also apply to open connections. All durations and rates of
// go doc ./adapters/httplimits Timeouts can be set:
//
//	echo '{"KeepAliveTimeout": "20s", "HandlerTimeout": "off"}' >timeouts.json
//	go run ./examples/http -timeouts timeouts.json
//
// Operators have a page about the connections on http://127.0.0.1:6060, with /metrics for
// Prometheus and /readyz beside it. The folder deploy has a manifest for Kubernetes, a scrape job for
// it, and units for systemd.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/idlewheel/idlewheel/adapters/idlehttp"
	"github.com/idlewheel/idlewheel/examples/internal/ops"
	"github.com/idlewheel/idlewheel/idle"
)

// config is what the flags say.
type config struct {
	cert, key string
	timeouts  string // a file
	ops       string
	lameDuck  time.Duration
}

func main() {
	var c config
	address := flag.String("address", "127.0.0.1:9005", "where to listen; fd:3 is a socket that systemd passes")
	flag.StringVar(&c.cert, "cert", "", "a `file` with a certificate, to serve with TLS")
	flag.StringVar(&c.key, "key", "", "a `file` with its key")
	flag.StringVar(&c.timeouts, "timeouts", "", "a `file` with timeouts, which SIGHUP reads again")
	flag.StringVar(&c.ops, "ops", "127.0.0.1:6060", "where operators look; empty for nowhere")
	flag.DurationVar(&c.lameDuck, "lame-duck", 0, "how long to go on serving after SIGTERM while /readyz fails; longer than the balancer needs to notice")
	flag.Parse()
	ln, err := listen(*address)
	if err != nil {
		log.Fatal(err)
	}
	log.Print("serving on ", ln.Addr())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	hup := make(chan os.Signal, 1) // to the end, because an uncaught SIGHUP would kill the process in a drain
	signal.Notify(hup, syscall.SIGHUP)
	if err := serve(ctx, ln, c, hup); err != nil {
		log.Fatal(err)
	}
}

// listen listens at an address, or takes over a socket that systemd has opened. Clients that
// connect while the program restarts wait in such a socket.
func listen(address string) (net.Listener, error) {
	number, ok := strings.CutPrefix(address, "fd:")
	if !ok {
		return net.Listen("tcp", address)
	}
	fd, err := strconv.Atoi(number)
	if err != nil || fd < 3 {
		return nil, fmt.Errorf("-address is %q; a socket of systemd is fd:3 or a greater number", address)
	}
	file := os.NewFile(uintptr(fd), address)
	defer file.Close() // FileListener has a copy
	return net.FileListener(file)
}

// serve serves until ctx is done, and then drains. It reads the timeouts again
// whenever it receives from hup.
func serve(ctx context.Context, ln net.Listener, c config, hup <-chan os.Signal) error {
	timeouts, err := readTimeouts(c.timeouts)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "hello,", r.RemoteAddr) })
	mux.HandleFunc("GET /ws", echo)
	server := &http.Server{Handler: mux, Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetHTTP2(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	l, err := idlehttp.Wrap(server, ln, timeouts)
	if err != nil {
		return err
	}
	defer l.Close()
	if err := ops.Serve(c.ops, map[string]*idle.Tracker{"http": l.Tracker()}, readiness(l)); err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() {
		if c.cert != "" {
			served <- server.ServeTLS(l, c.cert, c.key)
		} else {
			served <- server.Serve(l)
		}
	}()
	go reload(hup, c.timeouts, l)
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	if c.lameDuck > 0 {
		err = idlehttp.LameDuck(context.Background(), c.lameDuck, l)
	}
	err = errors.Join(err, idlehttp.Shutdown(context.Background(), idle.Drain{Duration: 3 * time.Second, ForceAfter: 10 * time.Second}, l))
	s := l.Stats()
	log.Printf("%d connections; %d have left, timed out %v; %d pings, %d misses", s.Tracked, s.Closed, s.Limits, s.Pings, s.Misses)
	return err
}

// readiness adds /readyz, which fails once clients should go elsewhere.
func readiness(l *idlehttp.Listener) func(*prometheus.Registry, *http.ServeMux) {
	return func(_ *prometheus.Registry, mux *http.ServeMux) {
		mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
			if l.IsDraining() {
				http.Error(w, "draining", http.StatusServiceUnavailable)
				return
			}
			fmt.Fprintln(w, "ready")
		})
	}
}
