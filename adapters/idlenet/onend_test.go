package idlenet_test

import (
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/idle"
)

// TestOnEndThatWaits has an OnEnd that waits for the server to give up the connection, as one does
// that needs a lock which the server holds while it reads. The server reads until the connection's
// timeout tells it to stop.
func TestOnEndThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker, err := idle.New(idle.Policy{ReadTimeout: time.Second}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tracker.Close()
		given, begun := make(chan struct{}), make(chan struct{})
		inner, client := net.Pipe()
		defer client.Close()
		c, err := idlenet.WrapConn(inner, tracker, &idlenet.Options{OnEnd: func(c *idlenet.Conn, err *idle.TimeoutError) {
			close(begun)
			<-given
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		go func() {
			<-begun
			c.SetReadDeadline(time.Now().Add(100 * time.Millisecond)) // the server's own
		}()
		started := time.Now()
		for {
			_, err := c.Read(make([]byte, 1))
			var timeout *idle.TimeoutError
			if !errors.As(err, &timeout) || !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal("Read fails with ", err)
			}
			c.SetReadDeadline(time.Time{})
			if time.Since(started) > 1500*time.Millisecond {
				break // it isn't the server's deadline that has passed
			}
		}
		close(given)
		if took := time.Since(started); took > 2200*time.Millisecond {
			t.Error("Read failed after ", took)
		}
		client.SetDeadline(time.Now().Add(time.Minute))
		if _, err := client.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("the connection isn't closed: ", err)
		}
	})
}

// TestOnEndThatChangesTheErrorLate has an OnEnd that changes its error for longer than ReapDelay, while
// reads fail. They return an error that nobody changes any more.
func TestOnEndThatChangesTheErrorLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker, err := idle.New(idle.Policy{IdleTimeout: time.Second}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tracker.Close()
		over := make(chan bool)
		inner, client := net.Pipe()
		defer client.Close()
		c, err := idlenet.WrapConn(inner, tracker, &idlenet.Options{OnEnd: func(_ *idlenet.Conn, err *idle.TimeoutError) {
			defer close(over)
			for range 30 {
				time.Sleep(100 * time.Millisecond)
				err.Phase += "x"
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for range 20 {
			if _, err := c.Read(make([]byte, 1)); err == nil || err.Error() == "" {
				t.Error("Read fails with ", err)
			}
			time.Sleep(50 * time.Millisecond)
		}
		<-over
	})
}
