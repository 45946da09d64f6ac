//go:build proof

package server

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/idle"
)

// TestServers exchanges something with every variant, and waits to be cut off for silence.
// A bare server must not do that.
func TestServers(t *testing.T) {
	for _, kind := range Kinds() {
		for _, variant := range Variants(kind) {
			t.Run(kind+"/"+variant, func(t *testing.T) {
				t.Parallel()
				const limit = time.Second
				s, err := Start(Config{
					Kind: kind, Variant: variant, Own: limit,
					Policy: idle.Policy{IdleTimeout: limit}, Timeouts: httplimits.Timeouts{KeepAliveTimeout: limit},
				})
				if err != nil {
					t.Fatal(err)
				}
				begun := time.Now()
				ended, err := exchange(kind, s.Address)
				if took := time.Since(begun); err != nil && variant != Bare && took > limit/2 {
					t.Skipf("inconclusive: the machine needed %v for a request: %v", took, err)
				}
				if err != nil {
					t.Fatal(err)
				}
				patience := 30 * time.Second
				if variant == Bare {
					patience = limit + limit/2
				}
				select {
				case err := <-ended:
					if variant == Bare {
						t.Errorf("a bare server has ended a silent connection: %v", err)
					}
				case <-time.After(patience):
					if variant != Bare {
						t.Errorf("a silent connection is open after %v", patience)
					}
				}
				if (s.Stats != nil) != (variant == Ours) || s.Stats != nil && s.Stats().Tracked == 0 {
					t.Error("the statistics are wrong")
				}
				if err := s.Stop(); err != nil {
					t.Errorf("stopping: %v", err)
				}
			})
		}
	}
}

// A watched connection tells when it has ended.
type watched struct {
	net.Conn
	ended chan error
}

func (w *watched) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	if err != nil {
		w.end(err)
	}
	return n, err
}

// Close is what http.Transport does when it has read the end of TLS.
func (w *watched) Close() error {
	w.end(net.ErrClosed)
	return w.Conn.Close()
}

func (w *watched) end(err error) {
	select {
	case w.ended <- err:
	default:
	}
}

// exchange makes a request, and returns what tells when its connection has ended.
func exchange(kind, address string) (<-chan error, error) {
	w := &watched{ended: make(chan error, 1)}
	dial := func(context.Context, string, string) (c net.Conn, err error) {
		w.Conn, err = net.Dial("tcp", address)
		return w, err
	}
	if kind == Net || kind == Gnet {
		if _, err := dial(nil, "", ""); err != nil {
			return nil, err
		}
		io.WriteString(w, Greeting)
		b := make([]byte, len(Greeting))
		if _, err := io.ReadFull(w, b); err != nil || string(b) != Greeting {
			return nil, fmt.Errorf("%q comes back, %v", b, err)
		}
		go io.Copy(io.Discard, w)
		return w.ended, nil
	}
	scheme := "http"
	if kind == HTTPS || kind == HTTP2 {
		scheme = "https"
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: ClientTLS(), ForceAttemptHTTP2: kind == HTTP2, DialContext: dial}}
	res, err := client.Get(scheme + "://" + address + "/")
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if b, err := io.ReadAll(res.Body); err != nil || string(b) != Greeting || (res.ProtoMajor == 2) != (kind == HTTP2) {
		return nil, fmt.Errorf("the answer over %s is %q, %v", res.Proto, b, err)
	}
	return w.ended, nil
}
