// Command http is a net/http server with TLS, HTTP/2 and WebSockets that slow or
// silent clients cannot hold, and a page on which one sees WebSockets being
// pinged and dropped.
//
//	go run ./examples/http
//
// Then open http://localhost:9005, or https://localhost:9006 for HTTP/2, which
// has a certificate that no browser trusts. Ctrl-C or SIGTERM drains the server: within
// three seconds all clients are asked to close their connections, the most idle first, and
// none is cut in a response that takes less than ten seconds. It then prints what it has counted. SIGHUP reads the timeouts
// again, and they hold for connections that are open:
//
//	echo '{"KeepAliveTimeout": "20s", "BodyTimeout": "1m"}' > timeouts.json
//	go run ./examples/http -timeouts timeouts.json
//	kill -HUP PID
//
// A page about the connections is on http://127.0.0.1:6060, metrics for Prometheus are on
// /metrics there, and /readyz says whether a balancer should send clients. -ops names another
// address. Behind a balancer, -lame-duck 10s has the server fail /readyz for that time before
// it drains. The folder deploy has a manifest for Kubernetes, a scrape job for it, and units for systemd.
package main

import (
	"context"
	"crypto/tls"
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

func main() {
	address := flag.String("address", "127.0.0.1:9005", "where to listen without TLS; fd:3 is a socket that systemd passes")
	secure := flag.String("tls-address", "127.0.0.1:9006", "where to listen with TLS; fd:4 is a socket that systemd passes")
	var beat idle.Heartbeat
	flag.DurationVar(&beat.Interval, "heartbeat", 3*time.Second, "silence after which a WebSocket is pinged")
	flag.DurationVar(&beat.Timeout, "timeout", 2*time.Second, "how long its answer may take")
	flag.IntVar(&beat.Misses, "misses", 2, "unanswered pings after which it is dropped")
	file := flag.String("timeouts", "", "a `file` with Timeouts, which SIGHUP has read again")
	opsAddress := flag.String("ops", "127.0.0.1:6060", "where to serve a page about the connections, and /metrics; empty for nowhere")
	lameDuck := flag.Duration("lame-duck", 0, "how long the server goes on serving after SIGTERM while /readyz fails; longer than your balancer needs to notice")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: go run ./examples/http [flags]")
		flag.PrintDefaults()
	}
	flag.Parse()
	plainListener, err := listen(*address)
	if err != nil {
		log.Fatal(err)
	}
	tlsListener, err := listen(*secure)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("open http://%v, or https://%v and trust its certificate", plainListener.Addr(), tlsListener.Addr())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, plainListener, tlsListener, beat, *file, *opsAddress, *lameDuck, idle.Drain{Duration: 3 * time.Second, ForceAfter: 10 * time.Second}); err != nil {
		log.Fatal(err)
	}
}

// serve serves on both listeners, and ends in good order when ctx does.
func serve(ctx context.Context, plain, secure net.Listener, beat idle.Heartbeat, file, opsAddress string, lameDuck time.Duration, drain idle.Drain) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cert, err := selfSigned()
	if err != nil {
		return err
	}
	rm := &room{
		ctx: ctx, beat: beat, url: "ws://" + plain.Addr().String() + "/mute/ws", secure: secure.Addr().String(),
		members: map[int]*member{}, watchers: map[chan []byte]bool{},
	}
	server := &http.Server{
		Handler: rm.routes(),
		// A server that serves without TLS, too, has HTTP/2 only if it is named.
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2", "http/1.1"}},
	}
	// What is not set has the defaults, which are made for the real world.
	timeouts, err := readTimeouts(file)
	if err != nil {
		return err
	}
	timeouts.OnTimeout = func(c net.Conn, err *idle.TimeoutError) (keep bool) {
		log.Printf("%v: %v", c.RemoteAddr(), err)
		return false
	}
	plainHTTP, err := idlehttp.Wrap(server, plain, timeouts)
	if err != nil {
		return err
	}
	defer plainHTTP.Close()
	tlsHTTP, err := idlehttp.Wrap(server, secure, timeouts)
	if err != nil {
		return err
	}
	defer tlsHTTP.Close()
	if err := ops.Serve(opsAddress, map[string]*idle.Tracker{
		"http": plainHTTP.Tracker(), "https": tlsHTTP.Tracker(), "https streams": tlsHTTP.StreamTracker(),
	}, readiness(plainHTTP, tlsHTTP)); err != nil {
		return err
	}

	done := make(chan error, 2)
	go func() { done <- server.Serve(plainHTTP) }()
	go func() { done <- server.ServeTLS(tlsHTTP, "", "") }()
	go reload(ctx, file, plainHTTP, tlsHTTP)
	select {
	case err = <-done:
		server.Close()
	case <-ctx.Done():
		if lameDuck > 0 {
			err = idlehttp.LameDuck(context.Background(), lameDuck, plainHTTP, tlsHTTP)
		}
		err = errors.Join(err, idlehttp.Shutdown(context.Background(), drain, plainHTTP, tlsHTTP))
		rm.live.Wait()
	}
	for name, l := range map[string]*idlehttp.Listener{"HTTP": plainHTTP, "HTTPS": tlsHTTP} {
		s := l.Stats()
		log.Printf("%s: %d connections; %d have left, timed out %v; %d pings, %d misses", name, s.Tracked, s.Closed, s.Limits, s.Pings, s.Misses)
	}
	return err
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
		return nil, fmt.Errorf("the address is %q; a socket of systemd is fd:3 or a greater number", address)
	}
	file := os.NewFile(uintptr(fd), address)
	defer file.Close() // FileListener has a copy
	return net.FileListener(file)
}

// readiness adds /readyz. It answers 503 from the moment at which clients should go elsewhere.
func readiness(listeners ...*idlehttp.Listener) func(*prometheus.Registry, *http.ServeMux) {
	return func(_ *prometheus.Registry, mux *http.ServeMux) {
		mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
			for _, l := range listeners {
				if l.IsDraining() {
					http.Error(w, "draining", http.StatusServiceUnavailable)
					return
				}
			}
			fmt.Fprintln(w, "ready")
		})
	}
}
