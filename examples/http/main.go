// Command http is a net/http server with TLS, HTTP/2 and WebSockets that slow or
// silent clients cannot hold, and a page on which one sees WebSockets being
// pinged and dropped.
//
//	go run ./examples/http
//
// Then open http://localhost:9005, or https://localhost:9006 for HTTP/2, which
// has a certificate that no browser trusts. Ctrl-C or SIGTERM drains the server: within
// three seconds all clients are asked to close their connections, the most idle first, and
// none is cut in a response. It then prints what it has counted. SIGHUP reads the timeouts
// again, and they hold for connections that are open:
//
//	echo '{"KeepAliveTimeout": "20s", "BodyTimeout": "1m"}' > timeouts.json
//	go run ./examples/http -timeouts timeouts.json
//	pkill -HUP http
//
// A page about the connections is on http://127.0.0.1:6060, and metrics for Prometheus are
// on /metrics there. -ops names another address.
package main

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlehttp"
	"github.com/idlewheel/idlewheel/examples/internal/ops"
	"github.com/idlewheel/idlewheel/idle"
)

func main() {
	address := flag.String("address", "127.0.0.1:9005", "where to listen without TLS")
	secure := flag.String("tls-address", "127.0.0.1:9006", "where to listen with TLS")
	var beat idle.Heartbeat
	flag.DurationVar(&beat.Interval, "heartbeat", 3*time.Second, "silence after which a WebSocket is pinged")
	flag.DurationVar(&beat.Timeout, "timeout", 2*time.Second, "how long its answer may take")
	flag.IntVar(&beat.Misses, "misses", 2, "unanswered pings after which it is dropped")
	file := flag.String("timeouts", "", "a `file` with Timeouts, which SIGHUP has read again")
	opsAddress := flag.String("ops", "127.0.0.1:6060", "where to serve a page about the connections, and /metrics; empty for nowhere")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: go run ./examples/http [flags]")
		flag.PrintDefaults()
	}
	flag.Parse()
	plainListener, err := net.Listen("tcp", *address)
	if err != nil {
		log.Fatal(err)
	}
	tlsListener, err := net.Listen("tcp", *secure)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("open http://%v, or https://%v and trust its certificate", plainListener.Addr(), tlsListener.Addr())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, plainListener, tlsListener, beat, *file, *opsAddress, idle.Drain{Over: 3 * time.Second, Stop: 10 * time.Second}); err != nil {
		log.Fatal(err)
	}
}

// serve serves on both listeners, and ends in good order when ctx does.
func serve(ctx context.Context, plain, secure net.Listener, beat idle.Heartbeat, file, opsAddress string, drain idle.Drain) error {
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
	plainHTTP, err := idlehttp.NewListener(server, plain, timeouts)
	if err != nil {
		return err
	}
	defer plainHTTP.Close()
	tlsHTTP, err := idlehttp.NewListener(server, secure, timeouts)
	if err != nil {
		return err
	}
	defer tlsHTTP.Close()
	if err := ops.Serve(opsAddress, map[string]*idle.Tracker{
		"http": plainHTTP.Tracker(), "https": tlsHTTP.Tracker(), "https streams": tlsHTTP.StreamTracker(),
	}); err != nil {
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
		err = idlehttp.Shutdown(context.Background(), drain, plainHTTP, tlsHTTP)
		rm.live.Wait()
	}
	for name, l := range map[string]*idlehttp.Listener{"HTTP": plainHTTP, "HTTPS": tlsHTTP} {
		s := l.Stats()
		log.Printf("%s: %d connections; %d have left, timed out %v; %d pings, %d misses", name, s.Tracked, s.Gone, s.Limits, s.Pings, s.Misses)
	}
	return err
}
