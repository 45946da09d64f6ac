// Package field has the servers that slowcheck compares: servers in Go, bare and with the timeouts
// that their documentation recommends, installed programs, and servers with idlewheel. Each of
// them serves the same paths.
package field

import (
	"debug/buildinfo"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/server"
	"github.com/idlewheel/idlewheel/bench/internal/slow"
)

// A Server is one of the field.
type Server struct {
	Name   string
	Config string // in a sentence, with its source
	ours   bool
	start  func() (slow.Target, func(), error)
	about  func() string // its version
}

// Start starts the server on loopback. stop ends it. Some servers can't be given a listener but
// only a port that was free a moment ago, so another one is tried if it isn't any more.
func (s *Server) Start() (t slow.Target, stop func(), err error) {
	for range 3 {
		if t, stop, err = s.start(); err == nil || !strings.Contains(err.Error(), "address already in use") {
			break
		}
	}
	return t, stop, err
}

// Version returns the version of the server, or "" if it is that of Go's own.
func (s *Server) Version() string { return s.about() }

// Servers returns the field.
func Servers() []Server { return slices.Concat(goServers(), systemServers()) }

// Names returns the names of all servers.
func Names() (names []string) {
	for _, s := range Servers() {
		names = append(names, s.Name)
	}
	return names
}

// IsOurs reports whether a server has the timeouts of idlewheel.
func IsOurs(name string) bool {
	return slices.ContainsFunc(Servers(), func(s Server) bool { return s.Name == name && s.ours })
}

// The paths of all HTTP servers.
const (
	uploadPath = "/upload"
	filmPath   = "/film"
	eventsPath = "/events"
	wsPath     = "/ws"
	filmSize   = 16 << 20
)

// target returns a target with these paths.
func target(scheme, address string, protocols ...string) slow.Target {
	return slow.Target{Scheme: scheme, Address: address, Host: "localhost", Protocols: protocols,
		Get: "/", Post: uploadPath, Large: filmPath, Stream: eventsPath, WS: wsPath}
}

// A daemon is a server that is a program. It's a proxy, as most of them are in use, for a server
// of net/http without timeouts, and speaks TLS.
type daemon struct {
	name    string
	program string
	module  string                          // of a program in Go
	install string                          // how to get it
	conf    []string                        // files of conf, the one for the command line first
	args    func(conf, dir string) []string // of the program
	says    string                          // its configuration in a sentence, with its source
}

var caddyArgs = func(conf, dir string) []string {
	return []string{"run", "--adapter", "caddyfile", "--config", conf}
}

func systemServers() (all []Server) {
	const (
		caddyModule  = "github.com/caddyserver/caddy/v2"
		installCaddy = "go install github.com/caddyserver/caddy/v2/cmd/caddy@v2.11.9"
	)
	for _, d := range []daemon{
		{"nginx", "nginx", "", "apt-get install nginx", []string{"nginx.conf"},
			func(conf, dir string) []string { return []string{"-c", conf, "-p", dir, "-g", "daemon off;"} },
			"client_header_timeout, client_body_timeout and send_timeout 10 s, keepalive_timeout 20 s: what nginx's guide against slow clients shortens (nginx.com, Mitigating DDoS Attacks)"},
		{"haproxy", "haproxy", "", "apt-get install haproxy", []string{"haproxy.cfg"},
			func(conf, dir string) []string { return []string{"-f", conf, "-db"} },
			"timeout http-request 10 s, client and server 60 s, http-keep-alive 10 s (HAProxy documentation, 4.2; haproxy.com, Protection against slowloris)"},
		{"apache2", "apache2", "", "apt-get install apache2", []string{"apache.conf"},
			func(conf, dir string) []string { return []string{"-f", conf, "-DFOREGROUND"} },
			"mod_reqtimeout handshake=5, as in its documentation's example, header=20-40,MinRate=500 body=20,MinRate=500, its default, and Timeout 60 (httpd.apache.org, mod_reqtimeout and Security Tips)"},
		{"caddy", "caddy", caddyModule, installCaddy, []string{"Caddyfile"}, caddyArgs,
			"timeouts read_body 10 s, read_header 5 s, write 30 s (caddyserver.com, Global options, timeouts: the values of its example), and idle 75 s, which is 10 m there"},
		{"caddy-rates", "caddy", caddyModule, installCaddy, []string{"Caddyfile-rates"}, caddyArgs,
			"timeouts read_body_idle 10 s and write_idle 10 s with a minimum rate of 500 B/s, read_header 5 s, idle 75 s (the same page; experimental)"},
		{"traefik", "traefik", "github.com/traefik/traefik/v3", "a release of github.com/traefik/traefik, in your PATH", []string{"traefik.yml", "traefik-routes.yml"},
			func(conf, dir string) []string { return []string{"--configFile=" + conf} },
			"respondingTimeouts with readTimeout 60 s, its default, writeTimeout 60 s, which is off by default, and idleTimeout 75 s, which is 180 s by default (doc.traefik.io, EntryPoints)"},
	} {
		all = append(all, Server{Name: d.name, Config: d.says, about: d.version, start: d.start})
	}
	return all
}

// find returns the path of the program.
func (d *daemon) find() (string, error) {
	for _, name := range []string{d.program, "/usr/sbin/" + d.program, filepath.Join(os.Getenv("HOME"), "go/bin", d.program)} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("it isn't installed here; to get it: %s", d.install)
}

// version returns the version of the program, from its build information if it's written in Go.
func (d *daemon) version() string {
	path, err := d.find()
	if err != nil {
		return ""
	}
	if info, err := buildinfo.ReadFile(path); err == nil {
		for _, m := range append(info.Deps, &info.Main) {
			if m.Path == d.module {
				return m.Version
			}
		}
	}
	out, _ := exec.Command(path, "-v").CombinedOutput()
	return numbers.FindString(string(out))
}

// numbers is what a version looks like.
var numbers = regexp.MustCompile(`[0-9]+(\.[0-9]+)+`)

func (d daemon) start() (t slow.Target, stop func(), err error) {
	path, err := d.find()
	if err != nil {
		return t, nil, err
	}
	dir, err := os.MkdirTemp("", "slowcheck-")
	if err != nil {
		return t, nil, err
	}
	stop = func() { os.RemoveAll(dir) }
	backend, endBackend, err := serveHTTP(&http.Server{})
	if err != nil {
		stop()
		return t, nil, err
	}
	stop = func() {
		endBackend()
		os.RemoveAll(dir)
	}
	address, err := d.configure(dir, backend)
	if err != nil {
		stop()
		return t, nil, err
	}
	cmd := exec.Command(path, d.args(filepath.Join(dir, d.conf[0]), dir)...)
	var said tail
	cmd.Stdout, cmd.Stderr, cmd.Dir = &said, &said, dir
	if err := cmd.Start(); err != nil {
		stop()
		return t, nil, err
	}
	stop = func() {
		cmd.Process.Signal(os.Interrupt)
		late := time.AfterFunc(3*time.Second, func() { cmd.Process.Kill() })
		cmd.Wait()
		late.Stop()
		endBackend()
		os.RemoveAll(dir)
	}
	if err := await(address); err != nil {
		stop()
		return t, nil, fmt.Errorf("%w; it said: %q", err, said.text)
	}
	return target("https", address, "tcp", "tls", "h1", "h2", "ws"), stop, nil
}

// tail is a Writer that keeps the last text written to it. Servers report each client that they
// have ended.
type tail struct{ text []byte }

func (t *tail) Write(b []byte) (int, error) {
	t.text = append(t.text, b...)
	t.text = t.text[max(0, len(t.text)-500):]
	return len(b), nil
}

// configure writes the configuration and a certificate to dir, and returns where the server will
// listen.
func (d *daemon) configure(dir, backend string) (address string, err error) {
	if address, err = server.FreeAddress(); err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // some run as another user
		return "", err
	}
	certificate, key, err := server.CertificatePEM()
	if err != nil {
		return "", err
	}
	files := map[string]string{"cert.pem": certificate, "key.pem": key, "both.pem": certificate + key}
	_, port, _ := net.SplitHostPort(address)
	fill := strings.NewReplacer("LISTEN", address, "PORT", port, "BACKEND", backend, "DIR", dir)
	for _, name := range d.conf {
		text, err := configs.ReadFile("conf/" + name)
		if err != nil {
			return "", err
		}
		files[name] = fill.Replace(string(text))
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return "", err
		}
	}
	return address, nil
}

// await waits until a server of HTTP answers as it should.
func await(address string) error {
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: server.ClientTLS(), DisableKeepAlives: true}}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		err := greeted(&client, "https://"+address+"/")
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

func greeted(client *http.Client, url string) error {
	resp, err := client.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && string(body) != server.Greeting {
		err = fmt.Errorf("it answers %s, %.50q instead of %q", resp.Status, body, server.Greeting)
	}
	return err
}

// quiet is a log for what servers say of clients that they have ended.
var quiet = log.New(io.Discard, "", 0)
