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
	epoll    int
	fds      []int
	due      []int // by descriptor, bytes of the answer that are yet to come
	request  []byte
	response int

	events [256]unix.EpollEvent
	b      [64 << 10]byte
}

func connectPlain(c *connections, conns int) (load, error) {
	to, err := netip.ParseAddrPort(c.address)
	if err != nil {
		return nil, err
	}
	l := &epollLoad{request: c.request, response: c.response}
	if l.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, err
	}
	for range conns {
		if err := l.dial(to); err != nil {
			l.close()
			return nil, fmt.Errorf("connection %d: %w", len(l.fds)+1, err)
		}
	}
	return l, nil
}

func (l *epollLoad) dial(to netip.AddrPort) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	l.fds = append(l.fds, fd)
	l.due = append(l.due, make([]int, max(fd+1-len(l.due), 0))...)
	if err := unix.Connect(fd, &unix.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())}); err != nil {
		return err
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return err
	}
	return unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(fd)})
}

func (l *epollLoad) close() {
	for _, fd := range l.fds {
		unix.Close(fd)
	}
	unix.Close(l.epoll)
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
	for outstanding := len(l.fds); outstanding > 0; {
		n, err := l.wait(func(int32) error { return nil })
		if err != nil {
			return turn{}, err
		}
		outstanding -= n
	}
	return t, nil
}

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
	n, err := unix.EpollWait(l.epoll, l.events[:], int(patience.Milliseconds()))
	if errors.Is(err, unix.EINTR) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if n == 0 {
		return 0, fmt.Errorf("no answer for %v", patience)
	}
	for _, e := range l.events[:n] {
		if err := l.receive(e.Fd); err != nil {
			return complete, err
		}
		if l.due[e.Fd] > 0 {
			continue
		}
		complete++
		if err := then(e.Fd); err != nil {
			return complete, err
		}
	}
	return complete, nil
}

// receive reads what there is. It will be told of more only when that arrives.
func (l *epollLoad) receive(fd int32) error {
	for {
		n, err := transfer(unix.SYS_RECVFROM, fd, l.b[:])
		if errors.Is(err, unix.EAGAIN) {
			return nil
		}
		if err != nil {
			return err
		}
		if n == 0 {
			return errors.New("the server has closed a connection")
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
