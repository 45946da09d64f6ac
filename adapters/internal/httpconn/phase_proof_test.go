//go:build proof

package httpconn

import (
	"net"
	"runtime"
	"testing"
	"time"
)

// TestUnreadOfFrames asks the kernel.
func TestUnreadOfFrames(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the kernel may not tell")
	}
	bare, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l, err := NewListener("httpconn", bare, unlimited(), OverTLS)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", bare.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	nc, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	h := framesHost{nc.(*Conn)}
	if h.Unread() {
		t.Error("there is unread input before the client has sent any")
	}
	client.Write([]byte("x"))
	for deadline := time.Now().Add(30 * time.Second); !h.Unread(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("there is no unread input though the client has sent some")
		}
	}
}
