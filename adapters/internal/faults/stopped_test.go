//go:build proof && linux

package faults

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/idle"
)

// serveAll runs a server of each kind.
func serveAll() error {
	serve := func(p idle.Policy, f func(*idlenet.Conn) error) (string, error) {
		s, err := newNetServer(listen(), p, nil, f)
		if err != nil {
			return "", err
		}
		return s.address, nil
	}
	idling, err := serve(idle.Policy{IdleTimeout: limit}, echo)
	beating, err2 := serve(idle.Policy{Heartbeat: idle.Heartbeat{Interval: limit / 2, Timeout: limit / 2, Passive: true}}, echo)
	reading, err3 := serve(idle.Policy{ReadTimeout: limit, MinReadRate: idle.Rate{BytesPerSecond: 20, Grace: limit}}, echo)
	writing, err4 := serve(idle.Policy{WriteTimeout: limit, MinWriteRate: idle.Rate{BytesPerSecond: 1000, Grace: limit}}, fill)
	loop, err5 := newGnetServer(idle.Policy{IdleTimeout: limit, ReadTimeout: limit}, nil, gnetEcho)
	if err := errors.Join(err, err2, err3, err4, err5); err != nil {
		return err
	}
	web := listen()
	serveHTTP(web)
	fmt.Println("listening", idling, beating, reading, writing, loop.address, web.Addr())
	untilDismissed()
	return nil
}

// A server process that is stopped (SIGSTOP) for longer than all its limits, and
// continued, closes nobody who has sent, or read, all along: bytes wait in the
// kernel, and the silence was its own. It does go on to close who is silent.
func TestStoppedProcess(t *testing.T) {
	long(t)
	t.Parallel()
	c := spawn(t, "servers")
	addresses := strings.Fields(c.line(t, "listening "))
	names := []string{"idlenet idle", "idlenet passive heartbeat", "idlenet read", "idlenet write", "idlegnet", "idlehttp"}
	talkers := make([][]*talker, len(names))
	for i := range names {
		message := "hello"
		if names[i] == "idlehttp" {
			message = "GET / HTTP/1.1\r\nHost: faults\r\n\r\n"
		}
		for range 5 {
			talkers[i] = append(talkers[i], talk(t, addresses[i], message))
		}
	}
	for range 2 {
		for _, all := range talkers {
			for _, k := range all {
				k.answered(t)
			}
		}
		if err := c.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Skipf("cannot stop a process: %v", err)
		}
		time.Sleep(3 * limit)
		c.Process.Signal(syscall.SIGCONT)
		time.Sleep(2 * limit) // who is closed in error is by now
	}
	for i, name := range names {
		t.Run(name, func(t *testing.T) {
			silent := dial(t, addresses[i])
			for _, k := range talkers[i] {
				k.mustLive(t)
			}
			if name != "idlenet write" { // to wait for the end is to read
				awaitEnd(t, silent)
			}
		})
	}
}
