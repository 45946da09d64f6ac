package idlehttp

import (
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/idle"
)

// A request that arrives when the end of its connection has been decided is not executed,
// and the last GOAWAY says so.
func TestHTTP2LateRequest(t *testing.T) {
	httpsuite.Both(t, func(t *testing.T, secure bool) { // each with variables of its own
		var client atomic.Pointer[framed]
		var requests atomic.Int64
		limits := Timeouts{Idle: idle.Options{OnEnds: func([]idle.End) {}, Label: func(any) string { // is called before OnEnd
			if f := client.Swap(nil); f != nil {
				f.open(3, getBlock, endStream)
				synctest.Wait() // for who might read it
			}
			return ""
		}}}
		count := func(w http.ResponseWriter, r *http.Request) { requests.Add(1) }
		virtually(t, secure, limits, defaultWindow, count, func(t *testing.T, f framed) {
			f.get(1)
			client.Store(&f)
			f.wantGoAway()
			f.Drain()
			if n := requests.Load(); n != 1 {
				t.Errorf("%d requests were executed, want 1", n)
			}
		})
	})
}
