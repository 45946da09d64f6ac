package httpsuite

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/adapters/internal/httpconn"
	"github.com/idlewheel/idlewheel/idle"
)

// A Listener is an adapter's listener.
type Listener interface {
	net.Listener
	Stats() httplimits.Stats
	Tracker() *idle.Tracker
	SetTimeouts(Timeouts) error
	IsDraining() bool
}

// Unlimited returns a Listener for a bare server. It has no limits and no counts.
func Unlimited(ln net.Listener) Listener { return unlimited{ln} }

type unlimited struct{ net.Listener }

func (unlimited) Stats() (st httplimits.Stats) { return st }
func (unlimited) Tracker() *idle.Tracker       { return nil }
func (unlimited) SetTimeouts(Timeouts) error   { return nil }
func (unlimited) IsDraining() bool             { return false }

// A Setup is a server that is ready to serve.
type Setup struct {
	Listener Listener
	Serve    func(net.Listener) error // returns nil when the server has been shut down or closed
	Shutdown func(context.Context) error
	Close    func()       // ends the server without waiting for its connections
	Open     func() int64 // connections that the server still uses; nil if it doesn't report them

	// These are nil for a bare server.
	Drain    func(context.Context, idle.Drain) error    // the adapter's Shutdown
	LameDuck func(context.Context, time.Duration) error // the adapter's
	Told     func() int                                 // connections that have been asked to finish
}

// Limited returns s with l, an adapter's listener, and the adapter's functions. err is from Wrap.
func Limited[L Listener](s Setup, l L, err error, shutdown func(context.Context, idle.Drain, ...L) error, lameDuck func(context.Context, time.Duration, ...L) error) (Setup, error) {
	s.Listener = l
	s.Drain = func(ctx context.Context, d idle.Drain) error { return shutdown(ctx, d, l) }
	s.LameDuck = func(ctx context.Context, d time.Duration) error { return lameDuck(ctx, d, l) }
	s.Told = func() (n int) {
		l.Tracker().Visit(context.Background(), func(i idle.Info) {
			if i.Owner.(*httpconn.Conn).IsTold() {
				n++
			}
		})
		return n
	}
	return s, err
}

// NetHTTP prepares a bare server, and has prepare change it. It calls idle when a connection waits for another request.
func NetHTTP(server *http.Server, ln net.Listener, secure bool, to io.Writer, idle func(), prepare ...func(*http.Server)) Setup {
	server.ErrorLog = log.New(to, "", 0)
	if secure {
		server.TLSConfig = ServerTLS()
	}
	for _, f := range prepare {
		f(server)
	}
	open, hook := new(atomic.Int64), server.ConnState
	server.ConnState = func(nc net.Conn, to http.ConnState) {
		switch to {
		case http.StateNew:
			open.Add(1)
		case http.StateIdle:
			idle()
		case http.StateClosed, http.StateHijacked:
			open.Add(-1)
		}
		if hook != nil {
			hook(nc, to)
		}
	}
	return Setup{
		Listener: Unlimited(ln), Shutdown: server.Shutdown, Close: func() { server.Close() }, Open: open.Load,
		Serve: func(l net.Listener) (err error) {
			if secure {
				err = server.ServeTLS(l, "", "")
			} else {
				err = server.Serve(l)
			}
			if err == http.ErrServerClosed {
				err = nil
			}
			return err
		},
	}
}

// FastHTTP is NetHTTP for fasthttp.
func FastHTTP(server *fasthttp.Server, ln net.Listener, secure bool, to io.Writer, idle func()) Setup {
	if server.Logger == nil {
		server.Logger = log.New(to, "", 0)
	}
	if secure {
		server.TLSConfig = ServerTLS()
	}
	hook := server.ConnState
	server.ConnState = func(nc net.Conn, to fasthttp.ConnState) {
		if to == fasthttp.StateIdle {
			idle()
		}
		if hook != nil {
			hook(nc, to)
		}
	}
	var once sync.Once
	shutdown := func(ctx context.Context) (err error) {
		once.Do(func() { err = server.ShutdownWithContext(ctx) })
		return err
	}
	return Setup{
		Listener: Unlimited(ln), Shutdown: shutdown,
		Close: func() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*ms)
			defer cancel()
			shutdown(ctx) // a connection that is new would have 5 s
		},
		Serve: func(l net.Listener) error {
			if secure {
				return server.ServeTLS(l, "", "")
			}
			return server.Serve(l)
		},
	}
}
