//go:build linux && !386 && !s390x

package idlenet_test

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/idle"
)

// A server that sends the same to many clients doesn't keep data for one that stops
// reading: MaxUnsent ends it long before WriteTimeout.
func ExampleOptions_maxUnsent() {
	bare, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	ln, err := idlenet.Wrap(bare, idle.Policy{WriteTimeout: time.Minute}, &idlenet.Options{MaxUnsent: 64 << 10})
	if err != nil {
		panic(err)
	}
	defer ln.Close()
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		panic(err)
	}
	defer client.Close() // which never reads

	conn, err := ln.Accept()
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	if runtime.GOOS != "linux" { // where the system doesn't tell when a Write waits
		conn.(*idlenet.Conn).End("max_unsent")
	}
	for err == nil {
		_, err = conn.Write(make([]byte, 64<<10))
	}
	var timeout *idle.TimeoutError
	if errors.As(err, &timeout) {
		fmt.Println(timeout.Cause)
	}
	// Output: max_unsent
}
