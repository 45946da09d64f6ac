package idlenet_test

import (
	"errors"
	"io"
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

// TestOnEndThatChangesTheErrorLate has an OnEnd that changes its error for longer than a second, while
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

// TestTimeoutCloses has a server that does nothing with its connection. The peer sees the end at once, or when OnEnd has had
// its second.
func TestTimeoutCloses(t *testing.T) {
	for name, test := range map[string]struct {
		onEnd func(*idlenet.Conn, *idle.TimeoutError)
		after time.Duration
	}{
		"at once":            {nil, time.Second},
		"after its farewell": {func(c *idlenet.Conn, _ *idle.TimeoutError) { c.Write([]byte("bye")) }, time.Second},
		"while it waits":     {func(*idlenet.Conn, *idle.TimeoutError) { time.Sleep(time.Minute) }, 2 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			tracker, err := idle.New(idle.Policy{IdleTimeout: time.Second}, nil)
			if err != nil {
				t.Fatal(err)
			}
			inner, client := net.Pipe()
			defer client.Close()
			c, err := idlenet.WrapConn(inner, tracker, &idlenet.Options{OnEnd: test.onEnd})
			if err != nil {
				t.Fatal(err)
			}
			c.SetWriteDeadline(time.Now().Add(time.Millisecond)) // of an earlier write
			begun := time.Now()
			farewell, err := io.ReadAll(client)
			if took := time.Since(begun); err != nil || took < test.after || took > test.after+100*time.Millisecond {
				t.Errorf("%s: closed after %v: %v", name, took, err)
			}
			if want := name == "after its farewell"; (string(farewell) == "bye") != want {
				t.Errorf("%s: the peer got %q", name, farewell)
			}
			time.Sleep(time.Minute)
			tracker.Close()
		})
	}
}

// TestNoFarewellAfterAWriteTimeout has an OnEnd that writes to a peer that doesn't read, beside the write that has timed out.
// Both fail with the timeout, and the connection is closed at once.
func TestNoFarewellAfterAWriteTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker, err := idle.New(idle.Policy{WriteTimeout: time.Second}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tracker.Close()
		inner, client := net.Pipe()
		defer client.Close()
		farewell := make(chan error, 1)
		c, err := idlenet.WrapConn(inner, tracker, &idlenet.Options{OnEnd: func(c *idlenet.Conn, _ *idle.TimeoutError) {
			c.SetWriteDeadline(time.Now().Add(time.Minute)) // as crypto/tls does before its alert
			_, err := c.Write([]byte("bye"))
			farewell <- err
		}})
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		_, err = c.Write([]byte("hello"))
		for _, err := range []error{err, <-farewell} {
			if timeout := new(idle.TimeoutError); !errors.As(err, &timeout) || timeout.Reason != idle.ReasonWrite {
				t.Error("Write fails with ", err)
			}
		}
		synctest.Wait()
		if _, err := inner.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
			t.Error("not closed: ", err)
		}
		if took := time.Since(begun); took > 1100*time.Millisecond {
			t.Error("it took ", took)
		}
	})
}

// blockedClose is a connection whose Close waits.
type blockedClose struct {
	net.Conn
	release <-chan struct{}
}

func (c blockedClose) Close() error {
	<-c.release
	return c.Conn.Close()
}

// TestNothingIsWrittenAfterATimeout has a connection inside that takes long to close. A write that waits fails all the same, and
// so does a later one, for which a deadline was set.
func TestNothingIsWrittenAfterATimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker, err := idle.New(idle.Policy{IdleTimeout: time.Second}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tracker.Close()
		inner, client := net.Pipe()
		defer client.Close()
		release := make(chan struct{})
		c, err := idlenet.WrapConn(blockedClose{inner, release}, tracker, nil)
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		_, waiting := c.Write([]byte("x"))
		c.SetWriteDeadline(time.Now().Add(time.Hour))
		_, later := c.Write([]byte("x"))
		for _, err := range []error{waiting, later} {
			if timeout := new(idle.TimeoutError); !errors.As(err, &timeout) {
				t.Error("Write fails with ", err)
			}
		}
		if took := time.Since(begun); took > 1100*time.Millisecond {
			t.Error("it took ", took)
		}
		close(release)
	})
}
