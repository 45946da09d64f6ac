package idlenet_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"sync"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/idle"
)

// echoServer is a server that can shut down.
type echoServer struct {
	ln    *idlenet.Listener
	conns sync.WaitGroup
}

func (s *echoServer) serve() {
	for {
		conn, err := s.ln.Accept()
		if err != nil {
			return
		}
		s.conns.Go(func() {
			defer conn.Close()
			io.Copy(conn, conn)
		})
	}
}

// shutdown accepts nothing more, and waits for the connections until ctx is done. It
// closes those that are left then, and returns how many they were. The timeouts go on
// meanwhile, so that silent clients do not use up the patience.
func (s *echoServer) shutdown(ctx context.Context) int {
	s.ln.Close()
	done := make(chan struct{})
	go func() {
		s.conns.Wait()
		close(done)
	}()
	select {
	case <-done:
		return 0
	case <-ctx.Done():
	}
	left, _ := s.ln.Tracker().Close() // an error says that the last one has just ended
	for _, c := range left {
		c.(*idlenet.Conn).Close()
	}
	<-done
	return len(left)
}

// A server shuts down: it stops accepting, waits for a while, and closes what is left.
func Example_shutdown() {
	bare, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	ln, err := idlenet.Wrap(bare, idle.Policy{IdleTimeout: time.Minute}, nil)
	if err != nil {
		log.Fatal(err)
	}
	server := &echoServer{ln: ln}
	go server.serve()
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	io.WriteString(client, "!")
	io.ReadFull(client, make([]byte, 1)) // it is served

	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	fmt.Println(server.shutdown(ctx), "connection had to be closed")
	_, err = client.Read(make([]byte, 1))
	fmt.Println(err)
	// Prints:
	// 1 connection had to be closed
	// EOF
}
