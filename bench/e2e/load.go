//go:build linux

package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/idlewheel/idlewheel/bench/internal/server"
)

// A load sends requests over many connections, one at a time on each, or one on each stream.
type load interface {
	// run sends requests for the given time, after it has warmed up: as many as the server
	// answers, or at the pace of the load. It leaves no answer outstanding.
	run(d time.Duration) (turn, error)
	close()
}

// A turn is what a load has done, and what that has cost the server.
type turn struct {
	opsPerS  float64       // exchanges per second, after the warm-up
	ops      int           // exchanges in all
	cpu      time.Duration // for these
	switches int           // context switches meanwhile
}

const (
	warmUp   = 20 * time.Millisecond // a server that was idle is up to a third slower for some 10 ms
	patience = 30 * time.Second      // how long an answer may take
)

// connect connects a load to a server, and makes a request on each connection.
func (b *bench) connect(address string, conns int) (load, error) {
	if !plain(b.kind) {
		return connectWeb(b.kind, address, conns)
	}
	l, _, err := openLoad(b.kind, address, conns)
	if err != nil || b.pace == 0 {
		return l, err
	}
	// The state of connections may lie in the server's memory in the order in which it accepted
	// them. Messages must not come in the same order.
	rand.Shuffle(len(l.fds), func(i, j int) { l.fds[i], l.fds[j] = l.fds[j], l.fds[i] })
	return &pacedLoad{epollLoad: l, gap: time.Second / time.Duration(b.pace)}, nil
}

// plain reports whether clients of a kind of server write and read bytes without TLS.
func plain(kind string) bool { return kind != server.HTTPS && kind != server.HTTP2 }

// An epollLoad is a load by epoll and plain system calls. It has to cost less than what it
// measures: a server that waits for its load isn't measured. So it tells the scheduler, which
// has nothing else to do here, of waiting only.
type epollLoad struct {
	to       netip.AddrPort
	epoll    int
	fds      []int
	due      []int // by descriptor, bytes of the answer that are yet to come
	request  []byte
	response int // bytes; all answers have the same length

	events [256]unix.EpollEvent
	b      [64 << 10]byte
}

// openLoad opens connections, and makes a request on each, so that none of them is new to the
// server. It returns when each of the requests was made.
func openLoad(kind, address string, n int) (l *epollLoad, asked []time.Time, err error) {
	const size = 64 // bytes of a message to an echo server
	l = &epollLoad{request: bytes.Repeat([]byte{'x'}, size), response: size}
	if kind == server.HTTP || kind == server.Fasthttp {
		l.request = []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if l.response, err = l.answerLength(address); err != nil {
			return nil, nil, fmt.Errorf("the first exchange: %w", err)
		}
	}
	if l.to, err = netip.ParseAddrPort(address); err != nil {
		return nil, nil, err
	}
	if l.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, nil, err
	}
	if err = l.open(n); err == nil {
		asked, err = l.ask()
	}
	if err = cmp.Or(err, l.settle(len(asked))); err != nil {
		l.close()
		return nil, nil, err
	}
	return l, asked, nil
}

// answerLength gets an answer of HTTP/1, which comes in one piece, checks it, and returns its length.
func (l *epollLoad) answerLength(address string) (int, error) {
	nc, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		return 0, err
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(patience))
	nc.Write(l.request)
	n, err := nc.Read(l.b[:])
	if answer := string(l.b[:n]); err == nil && !(strings.HasPrefix(answer, "HTTP/1.1 200 ") && strings.HasSuffix(answer, server.Greeting)) {
		err = fmt.Errorf("the answer is %q", answer)
	}
	return n, err
}

// open adds connections.
func (l *epollLoad) open(n int) error {
	for range n {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("connection %d: %w", len(l.fds)+1, err)
		}
		l.fds = append(l.fds, fd)
		l.due = append(l.due, make([]int, max(fd+1-len(l.due), 0))...)
		err = unix.Connect(fd, &unix.SockaddrInet4{Addr: l.to.Addr().As4(), Port: int(l.to.Port())})
		if err == nil {
			err = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
		}
		if err == nil {
			err = unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(fd)})
		}
		if err != nil {
			return fmt.Errorf("connection %d: %w", len(l.fds), err)
		}
	}
	return nil
}

func (l *epollLoad) close() {
	for _, fd := range l.fds {
		unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}) // or its port waits for a minute
		unix.Close(fd)
	}
	unix.Close(l.epoll)
}

// ask makes a request on each connection. It returns when each of them was made.
func (l *epollLoad) ask() (asked []time.Time, err error) {
	for _, fd := range l.fds {
		asked = append(asked, time.Now())
		if err := l.send(int32(fd)); err != nil {
			return nil, err
		}
	}
	return asked, nil
}

func (l *epollLoad) run(d time.Duration) (turn, error) {
	if _, err := l.ask(); err != nil {
		return turn{}, err
	}
	before, _, warmErr := l.keepBusy(warmUp)
	done, took, err := l.keepBusy(d)
	if err := cmp.Or(warmErr, err); err != nil {
		return turn{}, err
	}
	return turn{opsPerS: float64(done) / took.Seconds(), ops: before + done + len(l.fds)}, l.settle(len(l.fds))
}

// settle takes the answers that are outstanding.
func (l *epollLoad) settle(outstanding int) error {
	for outstanding > 0 {
		n, err := l.wait(patience, nil)
		if err != nil {
			return err
		}
		outstanding -= n
	}
	return nil
}

// keepBusy sends a request for every answer, for a time that it returns.
func (l *epollLoad) keepBusy(d time.Duration) (done int, took time.Duration, err error) {
	begun := time.Now()
	for took < d {
		n, err := l.wait(patience, l.send)
		if err != nil {
			return 0, 0, err
		}
		done += n
		took = time.Since(begun)
	}
	return done, took, nil
}

func (l *epollLoad) send(fd int32) error {
	l.due[fd] = l.response
	n, err := transfer(unix.SYS_SENDTO, fd, l.request)
	if err == nil && n < len(l.request) {
		err = errors.New("the kernel took a part of a request only")
	}
	return err
}

// wait waits for answers, calls then, if it is not nil, for every connection whose answer is complete, and
// returns how many those are. It fails if nothing arrives in the given time, unless that is 0.
func (l *epollLoad) wait(within time.Duration, then func(fd int32) error) (complete int, err error) {
	events, err := l.poll(within, func(fd int32) error {
		if err := l.receive(fd); err != nil || l.due[fd] > 0 {
			return err
		}
		if complete++; then == nil {
			return nil
		}
		return then(fd)
	})
	if err == nil && events == 0 && within > 0 {
		err = fmt.Errorf("no answer for %v", within)
	}
	return complete, err
}

// poll waits until something arrives, but not for longer than the given time. It calls hear
// for each connection that has input, and returns how many there are.
func (l *epollLoad) poll(within time.Duration, hear func(fd int32) error) (events int, err error) {
	n := 0
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		n, err = unix.EpollWait(l.epoll, l.events[:], int(within.Milliseconds()))
	}
	if err != nil {
		return 0, err
	}
	for _, e := range l.events[:n] {
		if err := hear(e.Fd); err != nil {
			return n, err
		}
	}
	return n, nil
}

// errClosed is that the server has closed a connection.
var errClosed = errors.New("the server has closed a connection")

// receive reads what there is. Epoll reports more only when that arrives.
func (l *epollLoad) receive(fd int32) error {
	for {
		n, err := transfer(unix.SYS_RECVFROM, fd, l.b[:])
		if errors.Is(err, unix.EAGAIN) {
			return nil
		}
		if errors.Is(err, unix.ECONNRESET) || err == nil && n == 0 {
			return errClosed
		}
		if err != nil {
			return err
		}
		if l.due[fd] -= n; l.due[fd] < 0 {
			return fmt.Errorf("an answer is %d bytes longer than the first one", -l.due[fd])
		}
		if n < len(l.b) {
			return nil
		}
	}
}

// transfer sends or receives without waiting.
func transfer(call uintptr, fd int32, b []byte) (int, error) {
	n, _, errno := unix.RawSyscall6(call, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), unix.MSG_DONTWAIT, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// A pacedLoad sends messages at an even pace, over one connection after another. It sleeps
// between messages, and takes answers when it sends the next message. If it waited for them,
// the server would spend CPU time on waking it.
type pacedLoad struct {
	*epollLoad
	gap  time.Duration // between messages
	next int           // index of the connection whose turn it is
}

// run has no warm-up: the server is to be as it is when little happens.
func (p *pacedLoad) run(d time.Duration) (turn, error) {
	begun := time.Now()
	outstanding, ops := 0, max(int(d/p.gap), 1)
	for i := range ops {
		sleepUntil(begun.Add(time.Duration(i) * p.gap))
		complete, err := p.wait(0, nil)
		outstanding -= complete
		fd := p.fds[p.next]
		for err == nil && p.due[fd] > 0 { // the server is a whole turn of the connections behind
			complete, err = p.wait(patience, nil)
			outstanding -= complete
		}
		if err == nil {
			err = p.send(int32(fd))
		}
		if err != nil {
			return turn{}, err
		}
		outstanding++
		p.next = (p.next + 1) % len(p.fds)
	}
	sleepUntil(begun.Add(d)) // what the server does after the last message counts as well
	return turn{opsPerS: float64(ops) / time.Since(begun).Seconds(), ops: ops}, p.settle(outstanding)
}

// sleepUntil sleeps more exactly than time.Sleep, which counts in ms while nothing else runs.
func sleepUntil(t time.Time) {
	for d := time.Until(t); d > 0; d = time.Until(t) {
		ts := unix.NsecToTimespec(int64(d))
		unix.Nanosleep(&ts, nil) // if a signal ends it, it sleeps again
	}
}
