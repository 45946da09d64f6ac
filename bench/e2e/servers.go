package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// A server can be run in variants. To add one, give it a run for each, and an
// exchange. A run calls ready with the address once the server listens there.
type server struct {
	run    map[string]func(ready func(address string)) error
	secure bool // it speaks TLS
	exchange
}

// An exchange is a request, and how the answer to it is read. All answers have
// to have the same length.
type exchange struct {
	request func(size int) []byte
	answer  func(in *bufio.Reader, size int) error
}

func servers() map[string]server {
	return map[string]server{
		"net": netServer(), "gnet": gnetServer(),
		"fasthttp": fasthttpServer(), "http": httpServer(), "https": httpsServer(),
	}
}

// echoExchange is the exchange of echo servers.
func echoExchange() exchange {
	return exchange{
		request: func(size int) []byte { return bytes.Repeat([]byte{'x'}, size) },
		answer: func(in *bufio.Reader, size int) error {
			_, err := io.CopyN(io.Discard, in, int64(size))
			return err
		},
	}
}

func serverNames() []string {
	var names []string
	for name := range servers() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

const (
	serveEnv = "IDLEWHEEL_E2E_SERVE" // tells a child process what to be

	// addressPrefix begins the line in which a child tells where it listens.
	// There are others: gnet logs to standard output.
	addressPrefix = "address "

	timeout    = time.Minute
	bufferSize = 4096
)

// serve runs one variant of a server, until standard input ends.
func serve(variant string) error {
	name, how, _ := strings.Cut(variant, "/")
	run, ok := servers()[name].run[how]
	if !ok {
		return fmt.Errorf("no server %q", variant)
	}
	debug.SetGCPercent(400) // the heap is tiny, and collections would hit at random
	failed := make(chan error, 1)
	go func() { failed <- run(func(address string) { fmt.Println(addressPrefix + address) }) }()
	ended := make(chan struct{})
	go func() { io.Copy(io.Discard, os.Stdin); close(ended) }()
	select {
	case err := <-failed:
		return err
	case <-ended:
		return nil
	}
}
