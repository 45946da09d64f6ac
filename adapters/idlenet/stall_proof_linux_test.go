//go:build proof

package idlenet

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/idlewheel/idlewheel/idle"
)

// While the server's process is stopped for longer than all its timeouts, its
// clients send, or read, all along. None of them may be closed for that.
func TestStoppedProcessClosesNoLiveConnection(t *testing.T) {
	t.Parallel()
	const stopped = 2500 * time.Millisecond
	server := exec.Command(os.Args[0], "-test.run=^TestStallHelperProcess$", "-test.v")
	server.Env = append(os.Environ(), "IDLENET_STALL_HELPER=1")
	server.Stderr = os.Stderr
	in, err := server.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); errors.Is(err, syscall.ENOEXEC) {
		t.Skip("the test's own binary is run by an emulator, and cannot be started as it is")
	} else if err != nil {
		t.Fatal(err)
	}
	defer server.Wait()
	defer server.Process.Signal(syscall.SIGCONT)
	defer in.Close() // which ends the helper
	lines := bufio.NewScanner(out)
	address := ""
	for address == "" && lines.Scan() {
		fmt.Sscanf(lines.Text(), "listening %s", &address)
	}

	var wait sync.WaitGroup
	var mu sync.Mutex
	var gaps metronome
	done := make(chan struct{})
	failed := make(chan error, 8)
	for i := range 8 {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		wait.Go(func() {
			var m metronome
			for step := clientOf(i, conn); ; time.Sleep(20 * time.Millisecond) {
				m.beat()
				mu.Lock()
				gaps.longest = max(gaps.longest, m.longest)
				mu.Unlock()
				if err := step(); err != nil {
					failed <- fmt.Errorf("client %d: %w", i, err)
					return
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	time.Sleep(700 * time.Millisecond)
	server.Process.Signal(syscall.SIGSTOP)
	time.Sleep(stopped)
	server.Process.Signal(syscall.SIGCONT)
	time.Sleep(1500 * time.Millisecond)
	close(done)
	wait.Wait()
	close(failed)
	fmt.Fprintln(in, "how are you?")
	for lines.Scan() {
		if text := lines.Text(); text == "done" {
			break
		} else {
			gaps.mustHaveBeen(t, stallLimit/2)
			t.Error("the server says:", text)
		}
	}
	for err := range failed {
		gaps.mustHaveBeen(t, stallLimit/2)
		t.Error(err)
	}
}

// A peer that takes some of a write and then no more acknowledges the last of it
// with a delay, up to 40 ms after it was sent. The limit counts from there.
func TestStalledWriteIsNotCutEarly(t *testing.T) {
	needLinux(t)
	const limit = 300 * time.Millisecond
	for i := range 4 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			server, client := connect(t, newTracker(t, idle.Policy{WriteTimeout: limit}), nil)
			raw, err := socketConn{server}.SyscallConn()
			if err != nil {
				t.Fatal(err)
			}
			acked := func() (n uint64) {
				raw.Control(func(fd uintptr) {
					if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
						n = info.Bytes_acked
					}
				})
				return n
			}
			ended := make(chan time.Time, 1)
			go func() { server.Write(make([]byte, 64<<20)); ended <- time.Now() }()
			go func() {
				own, err := client.SyscallConn()
				if err != nil {
					return
				}
				for b, n := make([]byte, 100<<10), 0; n < 40; n++ {
					client.Read(b)
					own.Control(func(fd uintptr) { unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK, 0) })
					time.Sleep(5 * time.Millisecond)
				}
			}()
			looked, before := time.Now(), acked()
			for last := looked; ; time.Sleep(time.Millisecond) {
				select {
				case at := <-ended:
					notBefore(t, at, last, limit)
					return
				default:
				}
				then := looked
				looked = time.Now()
				if n := acked(); n > before { // it is 0 once the connection is closed
					last, before = then, n
				}
			}
		})
	}
}

// clientOf returns what client i does every 20 ms: the even ones send a few
// bytes, the odd ones read some of what the server sends without end.
func clientOf(i int, conn net.Conn) func() error {
	b := make([]byte, 16<<10)
	if i%2 == 0 {
		return func() error {
			_, err := conn.Write([]byte("ping"))
			return err
		}
	}
	conn.Write([]byte("send"))
	return func() error {
		conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if _, err := conn.Read(b); !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		return nil
	}
}
