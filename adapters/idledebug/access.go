package idledebug

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// isLocal reports whether a request comes from this machine, and names it as only this
// machine is named.
func isLocal(r *http.Request) bool {
	for name := range r.Header {
		if isOfProxy(name) {
			return false
		}
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && peer.Addr().Unmap().IsLoopback() && isLoopbackHost(r.Host)
}

// isOfProxy reports whether proxies add a header of this name, in its canonical form.
func isOfProxy(name string) bool {
	switch name {
	case "Forwarded", "Via", "X-Real-Ip", "X-Client-Ip", "True-Client-Ip", "Cf-Connecting-Ip":
		return true
	}
	return strings.HasPrefix(name, "X-Forwarded-")
}

// isLoopbackHost reports whether a Host header is localhost or a loopback address.
func isLoopbackHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
	return err == nil && addr.Unmap().IsLoopback()
}
