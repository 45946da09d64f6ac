package idlenet

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

const stallLimit = time.Second

// TestStallHelperProcess is the server, in a process of its own.
func TestStallHelperProcess(t *testing.T) {
	if os.Getenv("IDLENET_STALL_HELPER") == "" {
		t.Skip("not a test but a part of one")
	}
	tracker, err := idle.New(idle.Policy{
		IdleTimeout: stallLimit, ReadTimeout: stallLimit, WriteTimeout: stallLimit,
		MinReadRate:  idle.Rate{BytesPerSecond: 20, Grace: stallLimit},
		MinWriteRate: idle.Rate{BytesPerSecond: 1000, Grace: stallLimit},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	bare, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln := share(t, bare, tracker, nil)
	fmt.Printf("listening %s\n", ln.Addr())
	ended := make(chan error, 8)
	go func() {
		for i := 0; ; i++ {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() { ended <- serveStalled(conn, i) }()
		}
	}()
	b := make([]byte, 64)
	os.Stdin.Read(b) // until asked, or left alone
	for len(ended) > 0 {
		if err := <-ended; err != nil && err != io.EOF && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
			fmt.Println(err)
		}
	}
	fmt.Println("done")
	os.Stdout.Close()
	os.Exit(0)
}

// serveStalled reads what comes, or sends without end if it is told to.
func serveStalled(conn net.Conn, i int) error {
	b := make([]byte, 64<<10)
	for {
		n, err := conn.Read(b)
		if err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
		if n >= 4 && string(b[:4]) == "send" {
			break
		}
	}
	for {
		if _, err := conn.Write(b); err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
	}
}
