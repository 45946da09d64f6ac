package attack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// Command, as the first argument of a program, makes it the server process. The
// next argument is for Serve.
const Command = "serve-under-attack"

// The variants of a server.
const (
	bare = "bare" // without timeouts
	own  = "own"  // with the server's own
	ours = "ours"
)

// A spec says what the server process is to be.
type spec struct {
	Server  string
	Variant string
	Limits  Limits
	Clients int  // for so many connections there are descriptors; 0: no limit
	Tell    bool // whether to tell of connections that are closed
}

// A news is a line that the server process writes. One of the fields is set.
type news struct {
	Address  string    `json:"address,omitempty"` // the first line: where it listens
	Closed   *closure  `json:"closed,omitempty"`
	Snapshot *snapshot `json:"snapshot,omitempty"`
}

// A closure says that the server has closed a connection.
type closure struct {
	Port int   `json:"port"` // the client's
	At   int64 `json:"at"`   // Unix time in ns
}

// A snapshot is how many connections and goroutines the server has.
type snapshot struct {
	Open       int `json:"open"`
	Goroutines int `json:"goroutines"`
}

// Serve is the server process. It serves until stdin ends, as it does when the
// process that attacks is over.
func Serve(arg string, stdin io.Reader, stdout io.Writer) error {
	var s spec
	if err := json.Unmarshal([]byte(arg), &s); err != nil {
		return fmt.Errorf("what to serve is %q: %w", arg, err)
	}
	run := map[string]func(*spec, net.Listener, *book) error{
		"net": serveNet, "gnet": serveGnet, "http": serveHTTP, "https": serveHTTP, "fasthttp": serveFasthttp,
	}[s.Server]
	if run == nil {
		return fmt.Errorf("there is no server %q", s.Server)
	}
	ln, err := listen()
	if err != nil {
		return err
	}
	defer ln.Close()
	if s.Clients > 0 {
		if err := limitDescriptors(s.Clients); err != nil {
			return fmt.Errorf("limiting descriptors: %w", err)
		}
	}
	b := &book{out: json.NewEncoder(stdout), detailed: s.Tell}
	ended := make(chan error, 1)
	go func() { ended <- run(&s, ln, b) }()
	go func() { ended <- b.answer(stdin) }()
	return <-ended
}

// listen returns a listener whose connections have small send buffers: so that a
// thousand slow readers do not take gigabytes of the kernel's memory, and so that
// it takes less than a film to fill them.
func listen() (net.Listener, error) {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error { return setSendBuffer(c, 32<<10) }}
	ln, err := config.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return patient{ln}, nil
}

// patient is a listener that waits for a descriptor if there is none. net/http
// does so itself, but fasthttp would end.
type patient struct{ net.Listener }

func (p patient) Accept() (net.Conn, error) {
	for {
		c, err := p.Listener.Accept()
		if !errors.Is(err, syscall.EMFILE) {
			return c, err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// A book is what the server process knows of its connections.
type book struct {
	detailed bool // closures are told

	mu   sync.Mutex
	open int
	out  *json.Encoder
}

func (b *book) tell(n news) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.out.Encode(n) // if it fails, the attacking process is gone, and stdin will end
}

// listening tells where the server listens.
func (b *book) listening(a net.Addr) { b.tell(news{Address: a.String()}) }

// changed counts connections by the states that HTTP servers report.
func (b *book) changed(nc net.Conn, opened, closed bool) {
	if !opened && !closed || !b.detailed {
		return
	}
	b.mu.Lock()
	if opened {
		b.open++
	} else {
		b.open--
	}
	b.mu.Unlock()
	if peer, ok := nc.RemoteAddr().(*net.TCPAddr); ok && closed {
		b.tell(news{Closed: &closure{Port: peer.Port, At: time.Now().UnixNano()}})
	}
}

// answer answers every byte of questions by a snapshot.
func (b *book) answer(questions io.Reader) error {
	question := make([]byte, 1)
	for {
		if _, err := questions.Read(question); err != nil {
			return nil
		}
		b.mu.Lock()
		s := &snapshot{Open: b.open, Goroutines: runtime.NumGoroutine()}
		b.mu.Unlock()
		b.tell(news{Snapshot: s})
	}
}
