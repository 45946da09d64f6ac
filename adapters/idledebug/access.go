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
	for _, h := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Via"} {
		if len(r.Header.Values(h)) > 0 {
			return false
		}
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && peer.Addr().Unmap().IsLoopback() && isLoopbackHost(r.Host)
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
