package idlenet

import (
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// A proxy holds a connection in ReadFrom or WriteTo for as long as the other
// side is silent. These tests are about what else must work meanwhile. Only on
// Linux does the kernel copy from connection to connection.

// Echo through one connection: it is the source and the sink of one copy.
func TestCopyOfConnectionToItself(t *testing.T) {
	t.Parallel()
	server, client := connect(t, newTracker(t, idle.Policy{IdleTimeout: time.Minute}), nil)
	done := make(chan error, 1)
	go func() { _, err := io.Copy(server, server); done <- err }()
	want := random(3*largeStep + 1)
	go func() { client.Write(want); client.CloseWrite() }()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(client, got); err != nil || string(got) != string(want) {
		t.Error("the echo differs, or fails with", err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestMessageIsWhole: a socket that keeps messages apart gets each in one write.
func TestMessageIsWhole(t *testing.T) {
	const size = 150 << 10
	for _, policy := range []idle.Policy{{IdleTimeout: patience}, {MinWriteRate: idle.Rate{BytesPerSecond: 1, Grace: patience}}} {
		bare, client := socketPair(t, "unixpacket", filepath.Join(t.TempDir(), "s"))
		server, err := wrapConn(bare, newTracker(t, policy), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		if n, err := server.Write(make([]byte, size)); n != size || err != nil {
			t.Fatalf("wrote %d bytes, %v", n, err)
		}
		if n, err := client.Read(make([]byte, 2*size)); n != size || err != nil {
			t.Errorf("got a message of %d bytes, %v", n, err)
		}
	}
}

// TestMessageIsCopiedWhole: a copy from a socket that keeps messages apart reads each whole.
func TestMessageIsCopiedWhole(t *testing.T) {
	const size = 10_000
	tracker := newTracker(t, idle.Policy{IdleTimeout: patience})
	for _, wrapped := range []bool{false, true} {
		source, peer := socketPair(t, "unixpacket", filepath.Join(t.TempDir(), "s"))
		if wrapped {
			c, err := wrapConn(source, tracker, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			source = c
		}
		peer.Write(random(size))
		peer.Close()
		server, client := connect(t, tracker, nil)
		if n, err := io.Copy(server, source); n != size || err != nil {
			t.Errorf("wrapped %v: copied %d bytes, %v", wrapped, n, err)
		}
		server.Close()
		if got, err := io.ReadAll(client); err != nil || string(got) != string(random(size)) {
			t.Errorf("wrapped %v: %d bytes arrive, %v", wrapped, len(got), err)
		}
	}
}
