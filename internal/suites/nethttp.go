package main

import (
	"context"
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"strings"
)

var nethttp = suite{
	name:     "nethttp",
	packages: []string{"net/http", "net/http/httptest", "net/http/httputil"},
	hook:     "nethttp.go",
	prepare:  prepareNetHTTP,
	differences: []known{
		{
			test:   test{"net/http", "TestTLSServerWithoutTLSConn"},
			reason: "its connection is no *tls.Conn, but has a method ConnectionState, and Accept refuses what has TLS inside",
			fatal:  true,
		},
		{
			test:   test{"net/http", "TestClientServerTLSConnWrapper"}, // since Go 1.27
			reason: "its connection is no *tls.Conn, but has a method ConnectionState, and Accept refuses what has TLS inside",
		},
		{
			test:   test{"net/http", "TestAutomaticHTTP2_Serve_NonH2TLSConfig"},
			reason: "it wants Serve to set up no HTTP/2; Wrap does, as ServeTLS may be called, and leaves the TLSConfig alone",
		},
		{
			test:   test{"net/http", "TestHijackAfterCloseNotifier"},
			reason: "it wants a hijacked connection to be a *net.TCPConn, and the wrapper is handed out",
		},
		{
			test:   test{"net/http/httputil", "TestReverseProxyWebSocketHalfTCP"},
			reason: "it wants a hijacked connection to be a *net.TCPConn, and the wrapper is handed out",
		},
		{
			test:   test{"net/http", "TestWriteHeaderNoCodeCheck"},
			reason: "it wants the log to name the caller of a superfluous WriteHeader, and names the wrapper of the ResponseWriter",
		},
		{
			test:   test{"net/http", "TestWriteHeaderNoCodeCheck_h1hijack"},
			reason: "it wants the log to name the caller of a superfluous WriteHeader, and names the wrapper of the ResponseWriter",
		},
		{
			test:   test{"net/http", "TestResponseControllerHijack"},
			reason: abandoned,
			race:   true,
		},
		{
			test:   test{"net/http", "TestTransportProxy"},
			reason: abandoned,
			race:   true,
		},
	},
}

// With idlehttp a hijacked connection has no limits unless Timeouts.Hijacked sets some, and
// then it is not tracked. Idlenet knows nothing of hijacking.
const abandoned = "it hijacks a connection and drops it: bare, the garbage collector closes it; idlenet keeps it until its IdleTimeout, " +
	"and its tracker with it, whose goroutine the suite takes for a leak"

// prepareNetHTTP overlays the net/http of the toolchain in use.
func prepareNetHTTP(ctx context.Context, s suite, root, dir string) (version string, flags []string, err error) {
	env, err := output(ctx, root, "go", "env", "GOVERSION", "GOROOT")
	if err != nil {
		return "", nil, err
	}
	version, goroot, _ := strings.Cut(strings.TrimSpace(string(env)), "\n")
	src := filepath.Join(goroot, "src")

	files := map[string][]byte{} // by their names in src
	server, err := os.ReadFile(filepath.Join(src, "net", "http", "server.go"))
	if err != nil {
		return "", nil, err
	}
	if files["net/http/server.go"], err = hooked(server, "l"); err != nil {
		return "", nil, err
	}
	for _, pkg := range s.packages {
		hooks, err := s.hooks(pkg)
		if err != nil {
			return "", nil, err
		}
		for name, text := range hooks {
			files[path.Join(pkg, name)] = text
		}
	}

	replace := map[string]string{}
	for name, text := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := write(file, text); err != nil {
			return "", nil, err
		}
		replace[filepath.Join(src, filepath.FromSlash(name))] = file
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", nil, err
	}
	file := filepath.Join(dir, "overlay.json")
	return "net/http of " + version, []string{"-overlay", file}, write(file, overlay)
}
