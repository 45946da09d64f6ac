package idlenet

import (
	"bytes"
	"errors"
	"io"
	"net"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/nettest"

	"github.com/idlewheel/idlewheel/adapters/internal/netconn"
	"github.com/idlewheel/idlewheel/adapters/internal/simnet"
	"github.com/idlewheel/idlewheel/idle"
)

func TestHalvesAreClosedAlone(t *testing.T) {
	tracker := newTracker(t, idle.Policy{IdleTimeout: time.Minute})
	server, client := connect(t, tracker, nil)
	if err := server.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if err := read1(client); err != io.EOF {
		t.Errorf("the client got %v, want EOF", err)
	}
	client.Write([]byte("x"))
	if err := read1(server); err != nil {
		t.Error(err)
	}
	if runtime.GOOS == "windows" {
		return // CloseRead does not disturb a read there
	}
	ended := make(chan error)
	go func() { ended <- read1(server) }()
	if err := server.CloseRead(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != io.EOF {
		t.Errorf("after CloseRead: got %v, want EOF", err)
	}
}

// TestSocketOptions reach the socket. What a pipe hasn't is unsupported.
func TestSocketOptions(t *testing.T) {
	tracker := newTracker(t, idle.Policy{IdleTimeout: time.Minute})
	server, client := connect(t, tracker, nil)
	overPipe, _ := pipe(t, tracker, nil)
	for name, set := range map[string]func(c *Conn) error{
		"SetNoDelay":         func(c *Conn) error { return c.SetNoDelay(false) },
		"SetKeepAlive":       func(c *Conn) error { return c.SetKeepAlive(true) },
		"SetKeepAlivePeriod": func(c *Conn) error { return c.SetKeepAlivePeriod(time.Minute) },
		"SetKeepAliveConfig": func(c *Conn) error { return c.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true}) },
		"SetLinger":          func(c *Conn) error { return c.SetLinger(0) },
		"CloseRead":          (*Conn).CloseRead,
		"CloseWrite":         (*Conn).CloseWrite,
	} {
		if err := set(overPipe); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s of a pipe: %v", name, err)
		}
		if name == "CloseRead" || name == "CloseWrite" {
			continue
		}
		if err := set(server); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	server.Close() // with a linger of 0 it resets
	if err := read1(client); err == nil || err == io.EOF {
		t.Errorf("the client got %v, want a reset", err)
	}
	if addr, ok := server.RemoteAddr().(*net.TCPAddr); !ok || addr.String() != client.LocalAddr().String() {
		t.Errorf("RemoteAddr is %v, a %T", server.RemoteAddr(), server.RemoteAddr())
	}
}

func TestZeroLengthReadsAndWritesAreNoActivity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 100 * time.Millisecond
		bare, _ := simulated(t, simnet.Silent) // of a pipe, they would wait
		server := wrapped(t, bare, newTracker(t, idle.Policy{IdleTimeout: limit}), nil)
		start := time.Now()
		for server.Timeout() == nil && time.Since(start) < 10*limit {
			server.Read(nil)
			server.Write(nil)
			time.Sleep(tick)
		}
		onTime(t, time.Now(), start, limit)
	})
}

// A brokenSocket has a SyscallConn that fails.
type brokenSocket struct{ net.Conn }

func (brokenSocket) SyscallConn() (syscall.RawConn, error) { return nil, errors.ErrUnsupported }

// TestSyscallConn: what WrapConn returns is a syscall.Conn where that works, and only
// there. Pools of clients discard a connection whose SyscallConn fails. It copies as a Conn.
func TestSyscallConn(t *testing.T) {
	tracker := newTracker(t, idle.Policy{IdleTimeout: time.Minute})
	server, _ := tcpPair(t)
	a, b := net.Pipe()
	for name, c := range map[string]struct {
		net.Conn
		want bool
	}{
		"a socket": {server, true}, "a pipe": {a, false}, "what has a broken socket": {brokenSocket{b}, false},
	} {
		nc, err := WrapConn(c.Conn, tracker, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		sc, is := nc.(syscall.Conn)
		if is != c.want {
			t.Errorf("over %s it is a syscall.Conn: %v", name, is)
		}
		if is {
			raw, err := sc.SyscallConn()
			if err != nil || reflect.TypeOf(raw).PkgPath() != reflect.TypeFor[netconn.Conn]().PkgPath() { // package os would know what it hides
				t.Errorf("over %s SyscallConn returns a %T, and %v", name, raw, err)
			}
		}
		if conn := Unwrap(nc); conn == nil || conn.NetConn() != c.Conn || connIn(nc) != conn.conn() {
			t.Errorf("over %s Unwrap, or copies, do not find the Conn", name)
		}
		if _, err := WrapConn(nc, tracker, nil); err != ErrWrapped {
			t.Errorf("over %s it can be wrapped twice: %v", name, err)
		}
	}
}

// A part is a connection with a Conn in it, and a Read of its own, as an HTTP adapter's.
type part struct {
	netconn.Conn
	reads int
}

func (c *part) Read(b []byte) (int, error) {
	c.reads++
	return c.Conn.Read(b)
}

func TestInitMakesAPartOfAnotherTypeAConn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 100 * time.Millisecond
		bare, client := net.Pipe()
		c := new(part)
		setup := netconn.NewSetup(idle.Hooks{OnEnd: func(owner any, _ *idle.TimeoutError) {
			if owner != c {
				t.Errorf("told of %p", owner)
			}
		}}, nil)
		if err := c.Init(bare, newTracker(t, idle.Policy{IdleTimeout: limit}), c, setup); err != nil {
			t.Fatal(err)
		}
		if Unwrap(c) != nil {
			t.Error("Unwrap finds a Conn in an adapter's connection")
		}
		go client.Write([]byte("x"))
		if err := read1(c); err != nil || c.reads != 1 {
			t.Errorf("%v after %d reads", err, c.reads)
		}
		start := time.Now()
		wantTimeout(t, read1(c), idle.ReasonIdle)
		onTime(t, time.Now(), start, limit)
		c.Close()
	})
	// What an HTTP adapter does to a connection would break it if users called it.
	for _, name := range []string{"Init", "ReadAhead", "AwaitAcked", "RawConn"} {
		if _, has := reflect.TypeFor[*netconn.Conn]().MethodByName(name); !has {
			t.Errorf("adapters have no %s", name)
		}
		if _, has := reflect.TypeFor[*Conn]().MethodByName(name); has {
			t.Errorf("users see %s", name)
		}
	}
}

// A read ahead of need awaits nothing of the peer, until that is taken back, and even if it's waiting already. What
// arrives is read nonetheless, and counts as an activity.
func TestReadAheadDoesNotHoldSilenceAgainstThePeer(t *testing.T) {
	const limit = 100 * time.Millisecond
	for reason, c := range map[idle.Reason]struct {
		policy idle.Policy
		waits  time.Duration // before; time counts for a rate
	}{
		idle.ReasonRead:        {idle.Policy{ReadTimeout: limit}, limit / 2},
		idle.ReasonMinReadRate: {idle.Policy{MinReadRate: idle.Rate{BytesPerSecond: 1000, Grace: limit}}, 0},
	} {
		inBubble(t, c.policy, nil, func(t *testing.T, server *Conn, client net.Conn) {
			time.AfterFunc(c.waits, func() { server.conn().ReadAhead(true) })
			for range 2 {
				time.AfterFunc(time.Minute, func() { client.Write([]byte("x")) })
				if err := read1(server); err != nil {
					t.Errorf("ahead of need: %v", err)
				}
			}
			server.conn().ReadAhead(false)
			start := time.Now()
			wantTimeout(t, read1(server), reason)
			notBefore(t, time.Now(), start, limit)
		})
	}
	inBubble(t, idle.Policy{IdleTimeout: limit}, nil, func(t *testing.T, server *Conn, _ net.Conn) {
		server.conn().ReadAhead(true)
		start := time.Now()
		wantTimeout(t, read1(server), idle.ReasonIdle)
		onTime(t, time.Now(), start, limit)
	})
}

// TestIdleAndAge has a socket, whose kernel tells of writes too, but isn't asked by Idle.
func TestIdleAndAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bare, client := simulated(t, simnet.Whole)
		server := wrapped(t, bare, newTracker(t, idle.Policy{IdleTimeout: time.Hour}), nil)
		client.Write([]byte("x"))
		for i, use := range []func([]byte) (int, error){server.Read, server.Write} {
			time.Sleep(3 * time.Second)
			use(make([]byte, 1))
			time.Sleep(time.Second)
			want := time.Duration(i+1) * 4 * time.Second
			if age, idle := server.Age(), server.Idle(); age > want || age < want-2*tick || idle > time.Second || idle < time.Second-2*tick {
				t.Errorf("%v old, idle for %v", age, idle)
			}
		}
	})
}

// TestUse: with ExplicitUse bytes and beats are no use, and Use is.
func TestUse(t *testing.T) {
	const limit = time.Minute
	inBubble(t, idle.Policy{IdleTimeout: limit, ExplicitUse: true}, nil, func(t *testing.T, server *Conn, client net.Conn) {
		go trickles(client)
		time.AfterFunc(limit/2, server.Use)
		start := time.Now().Add(limit / 2)
		var err error
		for err == nil {
			err = read1(server)
			server.Beat()
		}
		wantTimeout(t, err, idle.ReasonIdle)
		onTime(t, time.Now(), start, limit)
	})
}

// What a pipe takes pays for its time, as nobody else counts it. A large write has steps, so that a slow reader is seen.
func TestSlowReaderOfPipe(t *testing.T) {
	for name, c := range map[string]struct {
		policy     idle.Policy
		size, each int
	}{
		"rate":    {idle.Policy{MinWriteRate: idle.Rate{BytesPerSecond: 100, Grace: 200 * time.Millisecond}}, 10, 10}, // it reads 200 bytes a second
		"timeout": {idle.Policy{WriteTimeout: 700 * time.Millisecond}, 1 << 20, 4 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, c.policy, nil, func(t *testing.T, server *Conn, client net.Conn) {
				go func() {
					for range 100 * c.size / c.each {
						time.Sleep(50 * time.Millisecond)
						io.ReadFull(client, make([]byte, c.each))
					}
				}()
				for range 100 {
					if _, err := server.Write(make([]byte, c.size)); err != nil {
						t.Fatal(err)
					}
				}
			})
		})
	}
}

// TestRateOfManyWrites has a client that reads twice as fast as the policy asks for. Each write waits, and is over before the rate
// is checked again.
func TestRateOfManyWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bare, client := simulated(t, simnet.Whole)
		server := wrapped(t, bare, newTracker(t, idle.Policy{MinWriteRate: idle.Rate{BytesPerSecond: 1000, Grace: time.Second}}), nil)
		defer time.Sleep(time.Second) // until the client has noticed
		defer client.Close()
		go func() {
			for err := error(nil); err == nil; time.Sleep(50 * time.Millisecond) {
				_, err = client.Read(make([]byte, 100))
			}
		}()
		for range 200 {
			if _, err := server.Write(make([]byte, 200)); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A foreign connection is one of another library, such as a stream of a multiplexer or a WebSocket.
// Its address is its own, and so is the error of its deadlines.
type foreign struct {
	net.Conn
	network string
	writes  []int
}

func (f *foreign) LocalAddr() net.Addr { return f }
func (f *foreign) Network() string     { return f.network }
func (f *foreign) String() string      { return f.network }

func (f *foreign) Read(b []byte) (int, error) {
	n, err := f.Conn.Read(b)
	return n, f.own(err)
}

func (f *foreign) Write(b []byte) (int, error) {
	f.writes = append(f.writes, len(b))
	n, err := f.Conn.Write(b)
	return n, f.own(err)
}

func (f *foreign) own(err error) error {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return errForeign{}
	}
	return err
}

// errForeign is a timeout, but not os.ErrDeadlineExceeded.
type errForeign struct{}

func (errForeign) Error() string   { return "deadline reached" }
func (errForeign) Timeout() bool   { return true }
func (errForeign) Temporary() bool { return true }

// TestMessagesAreWhole: what isn't known to be a stream gets each message in one write. A stream gets
// a large write in steps, so that its progress is seen.
func TestMessagesAreWhole(t *testing.T) {
	const size = 300 << 10
	for network, whole := range map[string]bool{"websocket": true, "udp": true, "unixgram": true, "tcp": false, "unix": false, "pipe": false} {
		bare, client := net.Pipe()
		f := &foreign{Conn: bare, network: network}
		c := wrapped(t, f, newTracker(t, idle.Policy{WriteTimeout: time.Hour}), nil)
		sent := random(size)
		go func() {
			if n, err := c.Write(sent); n != size || err != nil {
				t.Errorf("%s: wrote %d bytes, %v", network, n, err)
			}
			c.Close()
		}()
		if got, err := io.ReadAll(client); err != nil || !bytes.Equal(got, sent) {
			t.Errorf("%s: something else arrives, and %v", network, err)
		}
		if most := slices.Max(f.writes); whole && most != size || !whole && most > 16<<10 { // no kernel tells what happens in a step
			t.Errorf("%s: a write of %d bytes", network, most)
		}
	}
}

// TestConn runs the conformance tests of net.Conn with both ends wrapped.
func TestConn(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			tracker := newTracker(t, idle.Policy{IdleTimeout: time.Minute, ReadTimeout: time.Minute, WriteTimeout: time.Minute})
			nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
				address := "127.0.0.1:0"
				if network == "unix" {
					address = filepath.Join(t.TempDir(), "s")
				}
				a, b := socketPair(t, network, address)
				c1, c2 = wrapped(t, a, tracker, nil), wrapped(t, b, tracker, nil)
				return c1, c2, func() { c1.Close(); c2.Close() }, nil
			})
		})
	}
}
