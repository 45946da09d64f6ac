//go:build proof

package idlenet

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// Who takes nothing is reset, as the kernel would keep for minutes what waits to
// be taken. Who merely sends nothing gets an end in good order.
func TestWhoTakesNothingIsReset(t *testing.T) {
	t.Parallel()
	const limit = 300 * time.Millisecond
	for _, closes := range []bool{true, false} { // or the tracker does
		tracker := newTracker(t, idle.Policy{WriteTimeout: limit, ReadTimeout: limit})
		ends := func(c *Conn) {
			if closes {
				c.Close()
			} else {
				eventually(t, "it is closed", func() bool { return errors.Is(c.NetConn().SetDeadline(time.Time{}), net.ErrClosed) })
			}
		}
		server, client := connect(t, tracker, nil)
		err, _ := await(t, func() error { _, err := server.Write(make([]byte, 32<<20)); return err })
		wantTimeout(t, err, idle.ReasonWrite)
		ends(server)
		silent, sender := connect(t, tracker, nil)
		err, _ = await(t, func() error { return read1(silent) })
		wantTimeout(t, err, idle.ReasonRead)
		ends(silent)
		client.SetReadDeadline(time.Now().Add(patience))
		if err := readAll(client); errors.Is(err, io.EOF) || errors.Is(err, os.ErrDeadlineExceeded) || runtime.GOOS == "linux" && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("who takes nothing gets %v", err)
		}
		sender.SetReadDeadline(time.Now().Add(patience))
		if err := readAll(sender); err != io.EOF {
			t.Errorf("who sends nothing gets %v", err)
		}
	}
}

// Input that comes while OnTimeout runs keeps the connection, though OnTimeout returns false.
// From then on the kernel is asked about output as before, so a slow reader is not ended.
func TestSlowReaderAfterARefusal(t *testing.T) {
	t.Parallel()
	needLinux(t)
	inOnTimeout, goOn := make(chan bool), make(chan bool)
	var asked atomic.Bool
	tracker := newTracker(t, idle.Policy{IdleTimeout: 300 * time.Millisecond})
	server, client := connect(t, tracker, &Options{OnTimeout: func(*Conn, *idle.TimeoutError) bool {
		if !asked.Swap(true) {
			inOnTimeout <- true
			<-goOn
		}
		return false
	}})
	writing, err := tracker.Phase(idle.Policy{WriteTimeout: 3 * time.Second}) // the kernel moves bytes in bursts
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan error, 1)
	go func() { read <- read1(server) }()
	<-inOnTimeout
	client.Write([]byte("x"))
	if err := <-read; err != nil {
		t.Fatal(err)
	}
	server.Enter(writing)
	goOn <- true
	client.SetReadBuffer(64 << 10)
	result := make(chan error, 1)
	go func() {
		_, err := server.Write(make([]byte, 64<<20))
		result <- err
	}()
	d := startDrain(client, 16<<10, 100*time.Millisecond)
	select {
	case err := <-result:
		d.end()
		d.pace.mustHaveBeen(t, time.Second)
		t.Errorf("ended with %v", err)
	case <-time.After(8 * time.Second):
		d.end()
	}
}
