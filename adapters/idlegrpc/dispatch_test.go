package idlegrpc

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/idlewheel/idlewheel/adapters/idletest"
)

// dispatching are credentials that hand a connection to another server, which grpc-go leaves open then.
type dispatching struct {
	credentials.TransportCredentials
}

func (dispatching) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, credentials.ErrConnDispatched
}

func TestDispatchedConnHasNoLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipes := idletest.NewListener()
		l, err := Wrap(pipes, Timeouts{HandshakeTimeout: time.Second, HeaderTimeout: time.Second, KeepAliveTimeout: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go func() {
			client, err := pipes.Dial()
			if err != nil {
				t.Error(err)
				return
			}
			defer client.Close()
			time.Sleep(time.Hour)
			client.Write([]byte("x")) // fails if the connection was ended
		}()
		nc, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		creds := l.Credentials(dispatching{insecure.NewCredentials()})
		if _, _, err := creds.ServerHandshake(nc); err != credentials.ErrConnDispatched {
			t.Fatal(err)
		}
		if n, err := nc.Read(make([]byte, 1)); n != 1 || err != nil {
			t.Errorf("an hour after it was dispatched, Read returns %d, %v", n, err)
		}
		if n := l.Stats().Live; n != 1 {
			t.Errorf("%d connections are tracked, not the one", n)
		}
	})
}
