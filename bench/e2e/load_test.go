package main

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/idlewheel/idlewheel/bench/internal/server"
)

// answers runs a server that answers whatever it reads by the next of texts.
func answers(t *testing.T, texts ...string) func() (net.Conn, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		b := make([]byte, 1024)
		for _, text := range texts {
			if _, err := c.Read(b); err != nil {
				return
			}
			io.WriteString(c, text)
		}
	}()
	return func() (net.Conn, error) { return net.Dial("tcp", ln.Addr().String()) }
}

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n" + server.Greeting

func TestMeasure(t *testing.T) {
	e := exchangeOf(server.HTTP)
	if n, err := e.measure(answers(t, ok, ok), 0); err != nil || n != len(ok) {
		t.Errorf("got %d, %v; want %d", n, err, len(ok))
	}
	longer := strings.Replace(ok, "OK\r\n", "OK\r\nServer: fickle\r\n", 1)
	if _, err := e.measure(answers(t, ok, longer), 0); err == nil || !strings.Contains(err.Error(), "and the next one") {
		t.Errorf("answers of different lengths: %v", err)
	}
	wrong := strings.Replace(ok, "200 OK", "404 Not Found", 1)
	if _, err := e.measure(answers(t, wrong, wrong), 0); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("an answer of 404: %v", err)
	}
}

func TestEchoAnswer(t *testing.T) {
	in := bufio.NewReader(strings.NewReader("xxxxyy"))
	if err := exchangeOf(server.Net).answer(in, 4); err != nil || in.Buffered() != 2 {
		t.Errorf("%v, and %d bytes are left", err, in.Buffered())
	}
}
