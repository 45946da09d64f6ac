package main

import (
	"crypto/x509"
	_ "embed"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/bench/internal/server"
)

// contestants are the servers of a comparison.
func contestants() []string {
	return []string{"net/http", "net/http-timeouts", "idlehttp", "fasthttp", "idlefasthttp", "nginx", "caddy"}
}

// A contestant is a server of a comparison, on loopback.
type contestant struct {
	target target
	config string // in a sentence
	stop   func()
}

// startContestant starts the server with a name.
func startContestant(name string) (*contestant, error) {
	web, fast := new(http.Server), new(fasthttp.Server)
	switch name {
	case "net/http":
		return start(server.Config{Kind: server.HTTP2, Variant: server.Bare, Web: web}, "without timeouts, as http.Server is when zero")
	case "net/http-timeouts":
		web.ReadHeaderTimeout, web.ReadTimeout, web.WriteTimeout, web.IdleTimeout = 5*time.Second, 30*time.Second, time.Minute, 75*time.Second
		return start(server.Config{Kind: server.HTTP2, Variant: server.Bare, Web: web}, "with its four timeouts, as its documentation recommends, at values that let an upload of 30 s pass")
	case "idlehttp":
		return start(server.Config{Kind: server.HTTP2, Variant: server.Ours, Web: web}, "with the zero Timeouts")
	case "fasthttp":
		fast.ReadTimeout, fast.WriteTimeout, fast.IdleTimeout = 30*time.Second, time.Minute, 75*time.Second
		return start(server.Config{Kind: server.Fasthttp, Variant: server.Bare, Fast: fast}, "with ReadTimeout 30 s, WriteTimeout 60 s, IdleTimeout 75 s")
	case "idlefasthttp":
		return start(server.Config{Kind: server.Fasthttp, Variant: server.Ours, Fast: fast}, "with the zero Timeouts")
	case "nginx":
		return startDaemon(name, nginxConf, "with the limits that its guide against slow clients shortens", "-c", "DIR/conf", "-p", "DIR", "-g", "daemon off;")
	}
	return startDaemon(name, caddyfile, "with the timeouts of its documentation's example", "run", "--adapter", "caddyfile", "--config", "DIR/conf")
}

const uploadPath, filmPath, eventsPath = "/upload", "/film", "/events"

func targetOf(scheme, address string) target {
	return target{scheme: scheme, address: address, host: "localhost", get: "/", post: uploadPath, large: filmPath, stream: eventsPath}
}

// start starts a server in this process.
func start(c server.Config, config string) (*contestant, error) {
	t := targetOf("https", "")
	if c.Kind == server.Fasthttp {
		t.scheme, t.stream = "http", ""
		c.Fast.StreamRequestBody, c.Fast.Handler = true, fastHandler()
	} else {
		c.Web.Handler = handler()
	}
	s, err := server.Start(c)
	if err != nil {
		return nil, err
	}
	t.address = s.Address
	return &contestant{t, config, func() { s.Stop() }}, nil
}

// film returns what is large.
func film() string { return strings.Repeat("idlewheel\n", 16<<20/10) }

// handler serves the paths of a target.
func handler() http.Handler {
	mux, film := http.NewServeMux(), film()
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, server.Greeting) })
	mux.HandleFunc(uploadPath, func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			panic(http.ErrAbortHandler)
		}
		io.WriteString(w, "thanks")
	})
	mux.HandleFunc(filmPath, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, film) })
	mux.HandleFunc(eventsPath, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
		case <-time.After(time.Minute):
		}
	})
	return mux
}

// fastHandler serves these paths, but for the stream.
func fastHandler() fasthttp.RequestHandler {
	film := film()
	return func(ctx *fasthttp.RequestCtx) {
		switch string(ctx.Path()) {
		case uploadPath:
			if _, err := io.Copy(io.Discard, ctx.RequestBodyStream()); err != nil {
				ctx.SetConnectionClose()
			}
			ctx.WriteString("thanks")
		case filmPath:
			ctx.WriteString(film)
		default:
			ctx.WriteString(server.Greeting)
		}
	}
}

//go:embed conf/nginx.conf
var nginxConf string

//go:embed conf/Caddyfile
var caddyfile string

// startDaemon starts a server that is a program, with a configuration in which LISTEN, PORT,
// BACKEND and DIR are replaced. It's a proxy, as most of them are in use, for a server of
// net/http without timeouts, and speaks TLS.
func startDaemon(name, conf, config string, args ...string) (*contestant, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return nil, fmt.Errorf("%s isn't installed here", name)
	}
	dir, err := os.MkdirTemp("", "slowcheck-")
	if err != nil {
		return nil, err
	}
	web := httptest.NewServer(handler())
	c := &contestant{config: config, stop: func() {
		web.Close()
		os.RemoveAll(dir)
	}}
	address, err := server.FreeAddress()
	c.target = targetOf("https", address)
	_, port, _ := net.SplitHostPort(address)
	cert, certErr := server.Certificate()
	key, keyErr := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]})
	private := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})
	fill := strings.NewReplacer("LISTEN", address, "PORT", port, "BACKEND", web.Listener.Addr().String(), "DIR", dir)
	err = errors.Join(err, certErr, keyErr, os.Chmod(dir, 0o755), // nginx runs as another user
		os.WriteFile(filepath.Join(dir, "cert.pem"), certificate, 0o644), os.WriteFile(filepath.Join(dir, "key.pem"), private, 0o644),
		os.WriteFile(filepath.Join(dir, "conf"), []byte(fill.Replace(conf)), 0o644))
	for i := range args {
		args[i] = fill.Replace(args[i])
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		c.stop()
		return nil, err
	}
	cleanUp := c.stop
	c.stop = func() {
		cmd.Process.Signal(os.Interrupt)
		defer time.AfterFunc(3*time.Second, func() { cmd.Process.Kill() }).Stop()
		cmd.Wait()
		cleanUp()
	}
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: server.ClientTLS(), DisableKeepAlives: true}}
	for range 100 { // until it answers
		var resp *http.Response
		if resp, err = client.Get("https://" + address + "/"); err == nil {
			resp.Body.Close()
			return c, nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	c.stop()
	return nil, err
}
