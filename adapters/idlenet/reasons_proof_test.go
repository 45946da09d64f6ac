//go:build proof

package idlenet

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/intime"
	"github.com/idlewheel/idlewheel/idle"
)

func TestSilentClientFailsReadWithTypedTimeout(t *testing.T) {
	t.Parallel()
	const limit = 150 * time.Millisecond
	inTime := intime.Of(t, limit/4)
	server, client := connect(t, newTracker(t, idle.Policy{IdleTimeout: limit}), nil)
	if _, err := client.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	sent := time.Now()
	if err := read1(server); err != nil {
		inTime.Fatal(err)
	}
	err, at := await(t, func() error { return read1(server) })
	wantTimeout(t, err, idle.ReasonIdle)
	notBefore(t, at, sent, limit)

	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "read" || op.Net != "tcp" || op.Addr.String() != client.LocalAddr().String() {
		t.Errorf("%#v does not say which operation on which connection failed", err)
	}
	if server.Timeout() == nil || server.Timeout().Limit != limit {
		t.Errorf("Timeout returns %v", server.Timeout())
	}
	again, _ := await(t, func() error { return read1(server) })
	wantTimeout(t, again, idle.ReasonIdle)
	_, err = server.Write([]byte("too late"))
	wantTimeout(t, err, idle.ReasonIdle)
}
