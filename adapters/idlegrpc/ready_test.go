package idlegrpc

import (
	"bytes"
	"io"
	"net"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc/mem"
)

// held counts the buffers that are taken from it.
type held struct {
	mem.BufferPool
	n int
}

func (h *held) Get(size int) *[]byte { h.n++; b := make([]byte, size); return &b }
func (h *held) Put(*[]byte)          { h.n-- }

// TestWaitsWithoutLargeBuffer reads messages of several sizes, and never holds a buffer of the pool
// while it waits for the next one.
func TestWaitsWithoutLargeBuffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := net.Pipe()
		c := &served{Conn: server, preface: []byte("preface")}
		pool, size := &held{}, 32<<10
		var got bytes.Buffer
		var last error
		go func() {
			for last == nil {
				var b *[]byte
				var n int
				if b, n, last = c.ReadOnReady(size, pool); b != nil {
					got.Write((*b)[:n])
					pool.Put(b)
				}
			}
		}()
		want := []byte("preface")
		for _, n := range []int{1, 40, 255, 257, 5000, 40_000, 3} {
			message := bytes.Repeat([]byte{byte(n)}, n)
			want = append(want, message...)
			if _, err := client.Write(message); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if pool.n != 0 || !bytes.Equal(got.Bytes(), want) {
				t.Errorf("after %d bytes: %d buffers are held, and %d of %d bytes are read", n, pool.n, got.Len(), len(want))
			}
		}
		if _, err := client.Write(make([]byte, len(c.first))); err != nil { // more could follow, but the end does
			t.Fatal(err)
		}
		client.Close()
		synctest.Wait()
		if last != io.EOF || pool.n != 0 {
			t.Errorf("at the end: %v, and %d buffers are held", last, pool.n)
		}
	})
}

// TestServesByReadOnReady: grpc-go finds the method under its name.
func TestServesByReadOnReady(t *testing.T) {
	var c net.Conn = &socket{served: &served{}}
	if _, ok := c.(interface {
		ReadOnReady(size int, pool mem.BufferPool) (*[]byte, int, error)
	}); !ok {
		t.Error("it has no ReadOnReady")
	}
}
