package idlenet_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/idle"
)

// broker speaks a protocol of lines that keeps clients alive as MQTT does. The first
// line is "CONNECT name keepalive". From then on a client has to send something at
// least every keepalive, if only PING, and is gone after one and a half. The others are
// told then, as by MQTT's will.
type broker struct {
	ln      *idlenet.Listener
	mu      sync.Mutex
	clients map[chan string]bool
}

func newBroker(ln net.Listener) (*broker, error) {
	l, err := idlenet.Wrap(ln, idle.Policy{Name: "connect", PhaseTimeout: 10 * time.Second}, &idlenet.Options{
		Idle: idle.Options{Tick: 10 * time.Millisecond}, // as a client may ask for a short keepalive
	})
	if err != nil {
		return nil, err
	}
	return &broker{ln: l, clients: map[chan string]bool{}}, nil
}

func (b *broker) serve() {
	for {
		conn, err := b.ln.Accept()
		if err != nil {
			return
		}
		go b.host(conn.(*idlenet.Conn))
	}
}

func (b *broker) host(conn *idlenet.Conn) {
	defer conn.Close()
	in := bufio.NewScanner(conn)
	if !in.Scan() {
		return
	}
	var name, text string
	if _, err := fmt.Sscanf(in.Text(), "CONNECT %s %s", &name, &text); err != nil {
		return
	}
	keepalive, err := time.ParseDuration(text)
	if err != nil {
		return
	}
	var beat idle.Heartbeat // stays off if the client asks for no keepalive
	if keepalive != 0 {
		beat = idle.Heartbeat{Interval: keepalive, Timeout: keepalive / 2, Passive: true}
	}
	// Each client has a phase of its own, which is cheap.
	connected, err := b.ln.Phase(idle.Policy{
		Name:         "connected",
		Heartbeat:    beat,
		WriteTimeout: 10 * time.Second,
	})
	if err != nil {
		return
	}
	conn.Enter(connected)

	// Messages wait in a queue, so that a client that does not read holds up nobody.
	queue := make(chan string, 64)
	go func() {
		for message := range queue {
			fmt.Fprintln(conn, message)
		}
	}()
	b.enter(queue)
	for in.Scan() {
		conn.Beat() // every packet of a client is a beat
		if message, ok := strings.CutPrefix(in.Text(), "PUBLISH "); ok {
			b.publish(name + " says " + message)
		}
	}
	b.leave(queue)
	var timeout *idle.TimeoutError
	if errors.As(in.Err(), &timeout) {
		b.publish(fmt.Sprint(name, " is lost: ", timeout.Setting, " of ", timeout.Limit))
	}
}

func (b *broker) enter(queue chan string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clients[queue] = true
	queue <- "welcome"
}

func (b *broker) leave(queue chan string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.clients, queue)
	close(queue)
}

// publish sends a message to all clients but those that are too far behind.
func (b *broker) publish(message string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for queue := range b.clients {
		select {
		case queue <- message:
		default:
		}
	}
}

// A broker in the manner of MQTT: each client names the interval at which it will beat,
// and is closed when it does not.
func Example_broker() {
	bare, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	b, err := newBroker(bare)
	if err != nil {
		log.Fatal(err)
	}
	defer b.ln.Close()
	go b.serve()

	join := func(hello string) (net.Conn, *bufio.Scanner) {
		conn, err := net.Dial("tcp", b.ln.Addr().String())
		if err != nil {
			log.Fatal(err)
		}
		io.WriteString(conn, hello)
		in := bufio.NewScanner(conn)
		in.Scan()
		return conn, in
	}
	watcher, in := join("CONNECT watcher 1h\n")
	defer watcher.Close()
	sensor, _ := join("CONNECT sensor 100ms\nPUBLISH 21 degrees\n")
	defer sensor.Close() // and no beat
	for range 2 {
		in.Scan()
		fmt.Println(in.Text())
	}
	// Prints:
	// sensor says 21 degrees
	// sensor is lost: Heartbeat of 150ms
}
