package idlefasthttp

import (
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
)

// SetTimeouts refuses the timeout of HTTP/2 as Wrap does, and SetLimits a request
// that came another way.
func TestSteeringRefuses(t *testing.T) {
	t.Parallel()
	server := &fasthttp.Server{Handler: func(*fasthttp.RequestCtx) {}}
	l, err := Wrap(server, httpsuite.Listen(t), Timeouts{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	httpsuite.WantError(t, l.SetTimeouts(Timeouts{StreamTimeout: time.Minute}), "idlefasthttp: StreamTimeout is 1m0s")
	if err := l.SetTimeouts(Timeouts{StreamTimeout: Off}); err != nil {
		t.Error(err)
	}
	var ctx fasthttp.RequestCtx
	ctx.Init(&fasthttp.Request{}, nil, nil)
	httpsuite.WantError(t, SetLimits(&ctx, RequestLimits{}), "idlefasthttp: SetLimits: the request did not arrive on a listener of this package")
}
