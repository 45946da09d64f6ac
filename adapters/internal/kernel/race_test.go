//go:build race && linux && !386 && !s390x && !idleother

package kernel

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"sync"
	"testing"
)

// A socket orders its two ends: what the writer did before its Write happened before
// what the reader does after its Read. Package net tells the race detector so, and
// tests rely on it, often with a plain connection at the other end. Where the stream
// does not tell, the accesses to shared are reported as a race, and fail this test.
func TestRaceStreamOrdersItsEnds(t *testing.T) {
	for name, wrap := range map[string]struct{ writer, reader func(net.Conn) net.Conn }{
		"stream to stream": {streamOf, streamOf},
		"stream to net":    {streamOf, Unwrap},
		"net to stream":    {Unwrap, streamOf},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := connect(t, "tcp", "127.0.0.1:0")
			writer, reader := wrap.writer(a), wrap.reader(b)
			shared := 0
			failed := make(chan error, 1)
			go func() {
				shared++
				_, err := writer.Write([]byte("x"))
				failed <- err
			}()
			if _, err := reader.Read(make([]byte, 1)); err != nil {
				t.Error(err)
			}
			if shared++; shared != 2 {
				t.Error("the writer's access is not seen")
			}
			if err := <-failed; err != nil {
				t.Error(err)
			}
		})
	}
}

// The race detector reports a buffer that is used elsewhere while it is read to, or
// written from. Each race is in a process of its own, as it fails the test there.
func TestRaceStreamTellsOfBuffers(t *testing.T) {
	const variable = "KERNEL_TEST_RACE"
	if which := os.Getenv(variable); which != "" {
		raceOverBuffer(t, which)
		return
	}
	for _, which := range []string{"read", "write"} {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), variable+"="+which)
		out, err := cmd.CombinedOutput()
		if err == nil || !bytes.Contains(out, []byte("DATA RACE")) {
			t.Errorf("%s: no race is reported (%v):\n%s", which, err, out)
		}
	}
}

// raceOverBuffer reads to, or writes from, a buffer that another goroutine uses.
func raceOverBuffer(t *testing.T, which string) {
	server, client := connect(t, "tcp", "127.0.0.1:0")
	c, b := streamOf(server), make([]byte, 8)
	if _, err := client.Write(make([]byte, len(b))); err != nil {
		t.Fatal(err)
	}
	var other sync.WaitGroup
	other.Go(func() { b[1] = 1 })
	var err error
	switch which {
	case "read":
		_, err = c.Read(b)
	case "write":
		_, err = c.Write(b)
	}
	if err != nil {
		t.Error(err)
	}
	other.Wait()
}
