package main

import (
	"errors"
	"fmt"
	"net/netip"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// epollLoad is a load by epoll and plain system calls. It has to cost less than
// what it measures: a server that waits for it is not measured but levelled. So
// the scheduler, which has nothing else to do here, is told of waiting only.
type epollLoad struct {
	to       netip.AddrPort
	epoll    int
	fds      []int
	due      []int // by descriptor, bytes of the answer that are yet to come
	request  []byte
	response int
	upgrade  []byte // if not nil, what is sent before, and how long the answer is
	upgraded int

	events [256]unix.EpollEvent
	b      [64 << 10]byte
}

func connectPlain(c *connections, cfg config) (load, error) {
	l, err := newEpollLoad(c)
	if err != nil {
		return nil, err
	}
	if err := l.open(cfg.conns); err != nil {
		l.close()
		return nil, err
	}
	if cfg.pace == 0 {
		return l, nil
	}
	p, err := newPacedLoad(l, cfg.pace)
	if err != nil {
		l.close()
		return nil, fmt.Errorf("the first exchanges: %w", err)
	}
	return p, nil
}

// newEpollLoad returns a load without connections yet.
func newEpollLoad(c *connections) (*epollLoad, error) {
	to, err := netip.ParseAddrPort(c.address)
	if err != nil {
		return nil, err
	}
	l := &epollLoad{to: to, request: c.request, response: c.response, upgrade: c.upgrade, upgraded: c.upgraded}
	l.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	return l, err
}

// open adds connections.
func (l *epollLoad) open(n int) error {
	for range n {
		if err := l.dial(); err != nil {
			return fmt.Errorf("connection %d: %w", len(l.fds)+1, err)
		}
	}
	return nil
}

func (l *epollLoad) dial() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	l.fds = append(l.fds, fd)
	l.due = append(l.due, make([]int, max(fd+1-len(l.due), 0))...)
	if err := unix.Connect(fd, &unix.SockaddrInet4{Addr: l.to.Addr().As4(), Port: int(l.to.Port())}); err != nil {
		return err
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return err
	}
	if err := l.greet(fd); err != nil {
		return fmt.Errorf("the upgrade: %w", err)
	}
	return unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(fd)})
}

// greet sends the upgrade and waits for the answer.
func (l *epollLoad) greet(fd int) error {
	if l.upgrade == nil {
		return nil
	}
	timeout := unix.NsecToTimeval(int64(patience))
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
		return err
	}
	if _, err := unix.Write(fd, l.upgrade); err != nil {
		return err
	}
	for left := l.upgraded; left > 0; {
		n, err := unix.Read(fd, l.b[:left])
		if err == nil && n == 0 {
			err = errClosed
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		left -= max(n, 0)
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

// exchange makes a request on each connection, and takes the answers. It returns when
// each of the requests was made.
func (l *epollLoad) exchange() (asked []time.Time, err error) {
	for _, fd := range l.fds {
		asked = append(asked, time.Now())
		if err := l.send(int32(fd)); err != nil {
			return nil, err
		}
	}
	return asked, l.settle(len(l.fds))
}

func (l *epollLoad) run(d time.Duration) (turn, error) {
	for _, fd := range l.fds {
		if err := l.send(int32(fd)); err != nil {
			return turn{}, err
		}
	}
	before, _, err := l.keepBusy(warmUp)
	if err != nil {
		return turn{}, err
	}
	done, took, err := l.keepBusy(d)
	if err != nil {
		return turn{}, err
	}
	t := turn{opsPerS: float64(done) / took.Seconds(), ops: before + done + len(l.fds)}
	return t, l.settle(len(l.fds))
}

// settle takes the answers that are outstanding.
func (l *epollLoad) settle(outstanding int) error {
	for outstanding > 0 {
		n, err := l.wait(nothing)
		if err != nil {
			return err
		}
		outstanding -= n
	}
	return nil
}

func nothing(fd int32) error { return nil }

// keepBusy sends a request for every answer, for a time that it returns.
func (l *epollLoad) keepBusy(d time.Duration) (done int, took time.Duration, err error) {
	begun := time.Now()
	for took < d {
		n, err := l.wait(l.send)
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

// wait waits for answers, calls then for every connection whose answer is
// complete, and returns how many those are.
func (l *epollLoad) wait(then func(fd int32) error) (complete int, err error) {
	events, complete, err := l.collect(patience, then)
	if err == nil && events == 0 {
		err = fmt.Errorf("no answer for %v", patience)
	}
	return complete, err
}

// collect is like wait, but it is no error if nothing arrives in the given time. It
// also returns of how many connections something has arrived.
func (l *epollLoad) collect(within time.Duration, then func(fd int32) error) (events, complete int, err error) {
	events, err = l.poll(within, func(fd int32) error {
		if err := l.receive(fd); err != nil || l.due[fd] > 0 {
			return err
		}
		complete++
		return then(fd)
	})
	return events, complete, err
}

// poll waits until something arrives, but not for longer than the given time. It calls
// hear for each connection that has input, and returns how many there are.
func (l *epollLoad) poll(within time.Duration, hear func(fd int32) error) (events int, err error) {
	n, err := unix.EpollWait(l.epoll, l.events[:], int(within.Milliseconds()))
	for errors.Is(err, unix.EINTR) {
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

// receive reads what there is. It will be told of more only when that arrives.
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
		l.due[fd] -= n
		if l.due[fd] < 0 {
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
