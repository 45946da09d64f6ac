package idlehttp_test

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlehttp"
	"github.com/idlewheel/idlewheel/idle"
)

// A gateway before a language model. The model may think for a while before its first token, and stall in the
// middle. In earnest, HeaderTimeout would be minutes, and BodyTimeout half of one.
func ExampleTransport() {
	model := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/stalls" {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, "data: Once upon a\n\n")
			http.NewResponseController(w).Flush()
		}
		<-r.Context().Done() // the gateway gives up
	})}
	upstream := listen()
	defer model.Close()
	go model.Serve(upstream)

	transport, err := idlehttp.Transport(http.DefaultTransport, idlehttp.ResponseLimits{
		HeaderTimeout: 200 * time.Millisecond,
		BodyTimeout:   100 * time.Millisecond,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer (&http.Client{Transport: transport}).CloseIdleConnections()
	target := &url.URL{Scheme: "http", Host: upstream.Addr().String()}
	proxy := &httputil.ReverseProxy{
		Transport: transport,
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ErrorLog:  log.New(io.Discard, "", 0), // has the timeouts of bodies
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			var timeout *idle.TimeoutError
			switch {
			case !errors.As(err, &timeout):
				w.WriteHeader(http.StatusBadGateway)
			case strings.HasPrefix(timeout.Phase, "response "): // otherwise the client is late, and gets a 408
				http.Error(w, "the model is late: "+timeout.Setting, http.StatusGatewayTimeout)
			}
		},
	}
	front := listen()
	gateway := &http.Server{Handler: proxy}
	defer gateway.Close()
	go idlehttp.Serve(gateway, front, idlehttp.Timeouts{})

	for _, path := range []string{"/thinks", "/stalls"} {
		response, err := http.Get("http://" + front.Addr().String() + path)
		if err != nil {
			log.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		fmt.Printf("%s %q %v\n", response.Status, body, err)
	}
	// Output:
	// 504 Gateway Timeout "the model is late: HeaderTimeout\n" <nil>
	// 200 OK "data: Once upon a\n\n" unexpected EOF
}
