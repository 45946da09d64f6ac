//go:build proof

package idlenet

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// An echoServer serves a wrapped listener: it echoes, and works for a while on what begins
// with a w.
type echoServer struct {
	*Listener
	work  chan struct{} // begins or ends the work
	ended sync.WaitGroup
}

func serveEcho(t *testing.T, opts *Options) *echoServer {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l, err := Wrap(ln, idle.Policy{IdleTimeout: time.Hour}, opts)
	if err != nil {
		t.Fatal(err)
	}
	s := &echoServer{Listener: l, work: make(chan struct{})}
	s.ended.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.ended.Go(func() { s.echo(c) })
		}
	})
	t.Cleanup(func() { s.Close(); s.ended.Wait() })
	return s
}

func (s *echoServer) echo(c net.Conn) {
	defer c.Close()
	b := make([]byte, 1024)
	for {
		n, err := c.Read(b)
		if err != nil {
			return
		}
		if b[0] == 'w' {
			s.work <- struct{}{}
			<-s.work
		}
		if _, err := c.Write(b[:n]); err != nil {
			return
		}
	}
}

// dial returns a client that has been served once.
func (s *echoServer) dial(t *testing.T) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	s.ask(t, c, "hello")
	return c
}

func (s *echoServer) ask(t *testing.T, c net.Conn, what string) {
	t.Helper()
	if _, err := io.WriteString(c, what); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, len(what))); err != nil {
		t.Fatalf("%q: %v", what, err)
	}
}

// TestDrain tells idle clients and ends them, and waits for one that is being served.
func TestDrain(t *testing.T) {
	var told atomic.Int32
	s := serveEcho(t, &Options{OnDrain: func(c *Conn) {
		io.WriteString(c, "bye")
		told.Add(1)
	}})
	var idlers []net.Conn
	for range 5 {
		idlers = append(idlers, s.dial(t))
	}
	busy := s.dial(t)
	if _, err := io.WriteString(busy, "w"); err != nil {
		t.Fatal(err)
	}
	<-s.work
	drain, err := s.Tracker().Drain(idle.Drain{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range idlers {
		if b, err := io.ReadAll(c); string(b) != "bye" || err != nil {
			t.Errorf("%q, %v", b, err)
		}
	}
	eventually(t, "one is left", func() bool { return drain.Left() == 1 && told.Load() == 6 })
	s.work <- struct{}{}
	if b, err := io.ReadAll(busy); string(b) != "byew" || err != nil { // told while it was being served
		t.Errorf("%q, %v", b, err)
	}
	<-drain.Done()
	if st := s.Tracker().Stats(); st.Drained != 6 || st.Live != 0 || told.Load() != 6 {
		t.Errorf("%+v; %d were told", st, told.Load())
	}
}

// TestDrainWaitsForBytesOnTheirWay has a client that is reading what the kernel has accepted
// long ago, and that sends something now and then. If the connection were closed meanwhile, the
// kernel would reset it, and the rest would be lost.
func TestDrainWaitsForBytesOnTheirWay(t *testing.T) {
	t.Parallel()
	needLinux(t)
	const size = 1 << 20
	tracker := newTracker(t, idle.Policy{WriteTimeout: time.Minute})
	server, client := connect(t, tracker, nil)
	if err := client.SetReadBuffer(32 << 10); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Write(make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	go func() { io.Copy(io.Discard, server); server.Close() }()
	if _, err := tracker.Drain(idle.Drain{ForceAfter: 2 * time.Minute}); err != nil {
		t.Fatal(err)
	}
	got := 0
	for b := make([]byte, 32<<10); got < size; time.Sleep(10 * time.Millisecond) {
		n, err := io.ReadFull(client, b)
		if got += n; err != nil {
			t.Fatalf("got %d of %d bytes, then %v", got, size, err)
		}
		client.Write([]byte("ok"))
	}
	if err := readAll(client); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the drain doesn't end the connection, though all bytes have arrived")
	}
}

func TestEndByHand(t *testing.T) {
	ended := make(chan *idle.TimeoutError, 1)
	s := serveEcho(t, &Options{OnEnd: func(c *Conn, err *idle.TimeoutError) { ended <- err }})
	client := s.dial(t)
	if err := s.Tracker().Visit(t.Context(), func(i idle.Info) {
		if i.Owner.(*Conn).RemoteAddr().String() == client.LocalAddr().String() {
			i.End("too old")
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err.Reason != idle.ReasonShed || err.Cause != "too old" {
		t.Error(err)
	}
	if _, err := client.Read(make([]byte, 1)); err != io.EOF {
		t.Error(err)
	}
}

func TestCapacityClosesTheNewcomer(t *testing.T) {
	s := serveEcho(t, nil)
	if err := s.Tracker().SetCapacity(idle.Capacity{MaxConns: 2, MinIdle: time.Hour}); err != nil {
		t.Fatal(err)
	}
	first := s.dial(t)
	s.dial(t)
	third, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer third.Close()
	third.SetDeadline(time.Now().Add(patience))
	if _, err := third.Read(make([]byte, 1)); err != io.EOF && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%v", err)
	}
	first.Close()
	eventually(t, "there is room again", func() bool { return s.Tracker().Stats().Live == 1 })
	s.dial(t)
	if st := s.Tracker().Stats(); st.Refused != 1 || st.Evicted != 0 {
		t.Errorf("%+v", st)
	}
}

// A shortListener fails for lack of descriptors while there are as many connections as it
// has.
type shortListener struct {
	net.Listener
	left atomic.Int32
}

func (l *shortListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	for err == nil && l.left.Add(-1) < 0 {
		l.left.Add(1)
		nc.Close() // as when a connection is reset in the backlog; the client tries again
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	if err != nil {
		return nil, err
	}
	return &shortConn{Conn: nc, of: l}, nil
}

type shortConn struct {
	net.Conn
	of   *shortListener
	once sync.Once
}

func (c *shortConn) Close() error {
	c.once.Do(func() { c.of.left.Add(1) })
	return c.Conn.Close()
}

// TestAcceptMakesRoomForLackOfDescriptors has more clients than descriptors. The most idle
// ones make room, and Accept does not fail.
func TestAcceptMakesRoomForLackOfDescriptors(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	short := &shortListener{Listener: ln}
	short.left.Store(20)
	l, err := Wrap(short, idle.Policy{IdleTimeout: time.Hour}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Tracker().SetCapacity(idle.Capacity{MinIdle: 50 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	s := &echoServer{Listener: l}
	failed := make(chan error, 1)
	s.ended.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				failed <- err
				return
			}
			s.ended.Go(func() { s.echo(c) })
		}
	})
	served := 0
	eventually(t, "60 clients are served with 20 descriptors", func() bool {
		select {
		case err := <-failed:
			t.Fatal("Accept failed: ", err)
		default:
		}
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		c.SetDeadline(time.Now().Add(patience))
		if io.WriteString(c, "x"); read1(c) == nil {
			served++
		}
		return served == 60
	})
	if st := l.Stats(); st.Evicted < 40 {
		t.Errorf("%+v", st)
	}
	l.Close()
	if _, err := l.Tracker().Drain(idle.Drain{}); err != nil {
		t.Error(err)
	}
	s.ended.Wait()
}
