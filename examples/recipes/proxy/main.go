// Command proxy is a reverse proxy with limits on both sides: slow clients can't hold it, and
// neither can a server behind it that stops answering.
//
//	go -C examples/recipes run ./proxy -to http://127.0.0.1:8000
//
// Each side that reuses connections has to give up an idle one before the other side does.
// Otherwise a request may be sent on a connection that is being closed. So the proxy keeps
// connections to the server for less time (IdleConnTimeout) than the server does, which is 75 s
// with idlehttp. Towards a load balancer in front of it, the proxy is the server: set
// KeepAliveTimeout longer than the balancer's own timeout.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlehttp"
	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/idle"
)

func main() {
	to := flag.String("to", "http://127.0.0.1:8000", "the `URL` of the server")
	flag.Parse()
	target, err := url.Parse(*to)
	if err != nil {
		log.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:8080")
	if err != nil {
		log.Fatal(err)
	}
	log.Print("serving ", target, " on http://", ln.Addr())
	log.Fatal(serve(ln, target, new(net.Dialer).DialContext))
}

type dialer func(ctx context.Context, network, address string) (net.Conn, error)

func serve(ln net.Listener, target *url.URL, dial dialer) error {
	// A connection is silent while the server works on a request, and while it waits for
	// one, so this limit is for both.
	upstream, err := idle.New(idle.Policy{Name: "upstream", IdleTimeout: 2 * time.Minute, WriteTimeout: 30 * time.Second}, nil)
	if err != nil {
		return err
	}
	defer upstream.CloseWhenEmpty()
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.SetXForwarded()
		},
		Transport: &http.Transport{
			DialContext:         limited(dial, upstream),
			MaxIdleConnsPerHost: 100,
			IdleConnTimeout:     time.Minute,
		},
		ErrorHandler: badGateway,
	}
	return idlehttp.Serve(&http.Server{Handler: proxy}, ln, idlehttp.Timeouts{})
}

// limited returns a dialer whose connections have the limits of a tracker.
func limited(dial dialer, t *idle.Tracker) dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		wrapped, err := idlenet.WrapConn(conn, t, nil)
		if err != nil {
			conn.Close()
			return nil, err
		}
		return wrapped, nil
	}
}

// badGateway answers a request that the server hasn't answered. If the client hasn't sent its body in time,
// that's left to idlehttp, which answers 408.
func badGateway(w http.ResponseWriter, r *http.Request, err error) {
	log.Printf("%s %s: %v", r.Method, r.URL.Path, err)
	var timeout *idle.TimeoutError
	switch {
	case !errors.As(err, &timeout):
		w.WriteHeader(http.StatusBadGateway)
	case timeout.Phase == "upstream":
		w.WriteHeader(http.StatusGatewayTimeout)
	}
}
