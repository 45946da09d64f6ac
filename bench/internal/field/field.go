// Package field has the servers that slowcheck compares: servers of Go, bare and with the
// timeouts that their documentation recommends, servers that the system has, and those with
// idlewheel. Each of them serves the same paths.
package field

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/slow"
)

// A Server is one of the field.
type Server struct {
	Name   string
	Config string // in a sentence, with its source
	ours   bool
	start  func(stderr io.Writer) (slow.Target, func(), error)
	about  func() string // its version
}

// Start starts the server on loopback. stop ends it.
func (s *Server) Start(stderr io.Writer) (t slow.Target, stop func(), err error) {
	return s.start(stderr)
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

// systemServers are those that the system's packages have. They are proxies, as most of them
// are in use, for a server of net/http without timeouts.
func systemServers() []Server {
	return []Server{
		system("nginx", "-v", "nginx.conf", "proxy with client_header_timeout, client_body_timeout, send_timeout 10 s and keepalive_timeout 20 s, as nginx's guide against slow clients shortens them (nginx.com, Mitigating DDoS Attacks)",
			func(conf, dir string) []string { return []string{"-c", conf, "-p", dir, "-g", "daemon off;"} }),
		system("haproxy", "-v", "haproxy.cfg", "proxy with timeout http-request 10 s, client and server 60 s, http-keep-alive 10 s (HAProxy documentation 4.2; haproxy.com, Protection against slowloris)",
			func(conf, dir string) []string { return []string{"-f", conf, "-db"} }),
		system("apache2", "-v", "apache.conf", "proxy with mod_reqtimeout header=20-40,MinRate=500 body=20,MinRate=500, its default since 2.4.39, and Timeout 60 (httpd.apache.org, Security Tips)",
			func(conf, dir string) []string { return []string{"-f", conf, "-DFOREGROUND"} }),
		system("caddy", "version", "Caddyfile", "proxy with timeouts read_body 10 s, read_header 5 s, write 30 s, idle 10 m, the example of its documentation (caddyserver.com, Global options, timeouts)",
			func(conf, dir string) []string {
				return []string{"run", "--adapter", "caddyfile", "--config", conf}
			}),
	}
}

// install says how to get a server.
var install = map[string]string{
	"nginx":   "on Debian: apt-get install nginx",
	"haproxy": "on Debian: apt-get install haproxy",
	"apache2": "on Debian: apt-get install apache2",
	"caddy":   "go install github.com/caddyserver/caddy/v2/cmd/caddy@v2.11.9",
}

// system returns a server that is a program with a configuration.
func system(program, versionFlag, conf, says string, args func(conf, dir string) []string) Server {
	find := func() (string, error) {
		for _, name := range []string{program, "/usr/sbin/" + program, filepath.Join(os.Getenv("HOME"), "go/bin", program)} {
			if path, err := exec.LookPath(name); err == nil {
				return path, nil
			}
		}
		return "", fmt.Errorf("it is not installed here; %s", install[program])
	}
	return Server{
		Name: program, Config: says,
		about: func() string {
			path, err := find()
			if err != nil {
				return ""
			}
			out, _ := exec.Command(path, versionFlag).CombinedOutput()
			line, _, _ := strings.Cut(string(out), "\n")
			return strings.TrimSpace(line)
		},
		start: func(stderr io.Writer) (t slow.Target, stop func(), err error) {
			path, err := find()
			if err != nil {
				return t, nil, err
			}
			dir, err := os.MkdirTemp("", "slowcheck-")
			if err != nil {
				return t, nil, err
			}
			backend, endBackend, err := serveHTTP(&http.Server{})
			if err != nil {
				return t, nil, err
			}
			address, err := freeAddress()
			if err != nil {
				return t, nil, err
			}
			text, err := configs.ReadFile("conf/" + conf)
			if err != nil {
				return t, nil, err
			}
			config := strings.NewReplacer("LISTEN", address, "BACKEND", backend, "DIR", dir).Replace(string(text))
			file := filepath.Join(dir, conf)
			if err := errors.Join(os.WriteFile(file, []byte(config), 0o644), os.Chmod(dir, 0o755)); err != nil {
				return t, nil, err
			}
			cmd := exec.Command(path, args(file, dir)...)
			cmd.Stderr, cmd.Dir = stderr, dir
			if err := cmd.Start(); err != nil {
				return t, nil, err
			}
			stop = func() {
				cmd.Process.Signal(os.Interrupt)
				time.AfterFunc(3*time.Second, func() { cmd.Process.Kill() })
				cmd.Wait()
				endBackend()
				os.RemoveAll(dir)
			}
			if err := await(address); err != nil {
				stop()
				return t, nil, err
			}
			return target("http", address, "tcp", "h1", "ws"), stop, nil
		},
	}
}

// freeAddress returns an address of loopback that is free.
func freeAddress() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer ln.Close()
	return ln.Addr().String(), nil
}

// await waits until somebody listens.
func await(address string) error {
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("tcp", address)
		if err == nil {
			return c.Close()
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("it does not listen after 10 s: %w", err)
		}
	}
}

// quiet is a log for what servers say of clients that they have ended.
var quiet = log.New(io.Discard, "", 0)
