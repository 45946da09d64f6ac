package main

import (
	"crypto/tls"
	"crypto/x509"
	_ "embed"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/adapters/idlefasthttp"
	"github.com/idlewheel/idlewheel/adapters/idlehttp"
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
	switch name {
	case "net/http":
		return startWeb(&http.Server{}, nil, "without timeouts, as http.Server is when zero")
	case "net/http-timeouts":
		return startWeb(&http.Server{ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: time.Minute, IdleTimeout: 75 * time.Second}, nil,
			"with its four timeouts, as its documentation recommends, at values that let an upload of 30 s pass")
	case "idlehttp":
		return startWeb(&http.Server{}, &idlehttp.Timeouts{}, "with the zero Timeouts")
	case "fasthttp":
		return startFast(nil)
	case "idlefasthttp":
		return startFast(&idlefasthttp.Timeouts{})
	case "nginx":
		return startDaemon(name, nginxConf, "with the limits that its guide against slow clients shortens", "-c", "DIR/conf", "-p", "DIR", "-g", "daemon off;")
	}
	return startDaemon(name, caddyfile, "with the timeouts of its documentation's example", "run", "--adapter", "caddyfile", "--config", "DIR/conf")
}

const uploadPath, filmPath, eventsPath = "/upload", "/film", "/events"

func targetOf(scheme, address string) target {
	return target{scheme: scheme, address: address, host: "localhost", get: "/", post: uploadPath, large: filmPath, stream: eventsPath}
}

// startWeb starts a server of net/http with TLS and HTTP/2, with our timeouts if there are some.
func startWeb(s *http.Server, limits *idlehttp.Timeouts, config string) (*contestant, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	certificate, err := server.Certificate()
	if err != nil {
		return nil, err
	}
	s.TLSConfig = &tls.Config{Certificates: []tls.Certificate{certificate}}
	s.Handler, s.ErrorLog = handler(), quiet()
	wrapped := net.Listener(ln)
	if limits != nil {
		if wrapped, err = idlehttp.Wrap(s, ln, *limits); err != nil {
			return nil, err
		}
	}
	go s.ServeTLS(wrapped, "", "")
	return &contestant{targetOf("https", ln.Addr().String()), config, func() { s.Close() }}, nil
}

// quiet is a log for what servers say of clients that they have ended.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

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

// startFast starts a server of fasthttp.
func startFast(limits *idlefasthttp.Timeouts) (*contestant, error) {
	film := film()
	s := &fasthttp.Server{Logger: quiet(), StreamRequestBody: true, Handler: func(ctx *fasthttp.RequestCtx) {
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
	}}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &contestant{targetOf("http", ln.Addr().String()), "with the zero Timeouts", func() { ln.Close() }}
	c.target.stream = ""
	wrapped := ln
	if limits == nil {
		c.config = "with ReadTimeout 30 s, WriteTimeout 60 s, IdleTimeout 75 s"
		s.ReadTimeout, s.WriteTimeout, s.IdleTimeout = 30*time.Second, time.Minute, 75*time.Second
	} else if wrapped, err = idlefasthttp.Wrap(s, ln, *limits); err != nil {
		return nil, err
	}
	go s.Serve(wrapped)
	return c, nil
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
	certificate, key, certErr := certificatePEM()
	fill := strings.NewReplacer("LISTEN", address, "PORT", port, "BACKEND", web.Listener.Addr().String(), "DIR", dir)
	err = errors.Join(err, certErr, os.Chmod(dir, 0o755), // nginx runs as another user
		os.WriteFile(filepath.Join(dir, "cert.pem"), certificate, 0o644), os.WriteFile(filepath.Join(dir, "key.pem"), key, 0o644),
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

// certificatePEM returns a certificate and its key in PEM.
func certificatePEM() (certificate, key []byte, err error) {
	c, err := server.Certificate()
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), err
}
