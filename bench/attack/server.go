package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strconv"
	"sync"
	"time"
)

// serverCommand, as the first argument, makes this program the server of a test
// that is run by another process of it. The variant follows, and how many
// clients there are to be descriptors for, 0 for as many as there can be.
const serverCommand = "serve-for-attack"

// A news is a line of JSON that the server process writes to its stdout; one of
// the fields is set.
type news struct {
	Address  string    `json:"address,omitempty"` // the first: where it listens
	Closed   *closure  `json:"closed,omitempty"`  // a connection is gone
	Snapshot *snapshot `json:"snapshot,omitempty"`
}

// A closure is that the server has closed a connection.
type closure struct {
	Port int   `json:"port"` // the client's
	At   int64 `json:"at"`   // Unix time in ns
}

// A snapshot is how the server is.
type snapshot struct {
	Open       int `json:"open"`
	Goroutines int `json:"goroutines"`
}

// servers are what can be attacked, and how each is run in a variant. Their
// connections are to be reported by opened and closed.
func servers() map[string]func(variant string, cfg config, ln net.Listener, b *book) error {
	return map[string]func(string, config, net.Listener, *book) error{
		"http": serveHTTP, "https": serveHTTP, "fasthttp": serveFasthttp,
	}
}

func serverNames() []string { return []string{"http", "https", "fasthttp"} }

// variants are the ways in which a server is run.
func variants() []string { return []string{bare, own, ours} }

const (
	bare = "bare" // no timeouts
	own  = "own"  // the server's
	ours = "ours"
)

// runServer serves until stdin ends, as it does when the test is over or its
// process dies.
func runServer(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if err := serve(args, stdin, stdout); err != nil {
		fmt.Fprintf(stderr, "attack: server: %v\n", err)
		return statusTrouble
	}
	return statusPass
}

func serve(args []string, stdin io.Reader, stdout io.Writer) error {
	if len(args) < 2 {
		return errors.New("the variant and the number of clients are missing")
	}
	variant := args[0]
	clients, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	cfg, err := parse(args[2:])
	if err != nil {
		return err
	}
	ln, err := listen()
	if err != nil {
		return err
	}
	defer ln.Close()
	if clients > 0 {
		if err := limitDescriptors(clients); err != nil {
			return fmt.Errorf("limiting descriptors: %w", err)
		}
	}
	b := &book{out: json.NewEncoder(stdout)}
	b.tell(news{Address: ln.Addr().String()})
	failed := make(chan error, 1)
	go func() { failed <- servers()[cfg.server](variant, cfg, ln, b) }()
	ended := make(chan struct{})
	go func() { b.answer(stdin); close(ended) }()
	select {
	case err := <-failed:
		return err
	case <-ended:
		return nil
	}
}

// A book is what the server process knows of its connections.
type book struct {
	mu   sync.Mutex
	open int
	out  *json.Encoder
}

func (b *book) tell(n news) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.out.Encode(n) // if it fails, the test's process is gone, and stdin will end
}

// opened counts a connection.
func (b *book) opened() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open++
}

// closed counts a connection that the server has closed.
func (b *book) closed(nc net.Conn) {
	at := time.Now().UnixNano()
	b.mu.Lock()
	b.open--
	b.mu.Unlock()
	if peer, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		b.tell(news{Closed: &closure{Port: peer.Port, At: at}})
	}
}

// answer answers every byte of questions by a snapshot.
func (b *book) answer(questions io.Reader) {
	question := make([]byte, 1)
	for {
		if _, err := questions.Read(question); err != nil {
			return
		}
		b.mu.Lock()
		s := &snapshot{Open: b.open, Goroutines: runtime.NumGoroutine()}
		b.mu.Unlock()
		b.tell(news{Snapshot: s})
	}
}
