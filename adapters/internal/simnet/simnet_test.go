package simnet

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func pair(t *testing.T, test func(a, b net.Conn)) {
	synctest.Test(t, func(t *testing.T) {
		l := Listen(Config{Seed: 1, Buffer: 100})
		defer l.Close()
		accepted := make(chan net.Conn, 1)
		go func() {
			nc, _ := l.Accept()
			accepted <- nc
		}()
		a, err := l.Dial()
		if err != nil {
			t.Fatal(err)
		}
		test(a, <-accepted)
	})
}

func TestBytesArrive(t *testing.T) {
	pair(t, func(a, b net.Conn) {
		text := bytes.Repeat([]byte("0123456789"), 1000)
		go func() {
			a.Write(text)
			a.(*Conn).CloseWrite()
		}()
		if got, err := io.ReadAll(b); err != nil || !bytes.Equal(got, text) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		go b.Write([]byte("back"))
		if _, err := io.ReadFull(a, make([]byte, 4)); err != nil {
			t.Error(err)
		}
	})
}

func TestBufferFills(t *testing.T) {
	pair(t, func(a, b net.Conn) {
		begun := time.Now()
		a.SetWriteDeadline(begun.Add(time.Minute))
		n, err := a.Write(make([]byte, 101))
		if n != 100 || !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begun) != time.Minute {
			t.Errorf("%d, %v after %v", n, err, time.Since(begun))
		}
	})
}

func TestCloseAndReset(t *testing.T) {
	pair(t, func(a, b net.Conn) {
		a.Write([]byte("last"))
		a.Close()
		if got, err := io.ReadAll(b); string(got) != "last" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		if _, err := b.Write([]byte("x")); !errors.Is(err, syscall.ECONNRESET) {
			t.Error(err)
		}
		if _, err := a.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	pair(t, func(a, b net.Conn) {
		a.Write([]byte("lost"))
		a.(*Conn).Reset()
		if _, err := b.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Error(err)
		}
	})
}
