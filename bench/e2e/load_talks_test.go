//go:build proof

package main

import (
	"io"
	"net"
	"strings"
	"testing"

	"github.com/idlewheel/idlewheel/bench/internal/frames"
	"github.com/idlewheel/idlewheel/bench/internal/server"
)

// TestStreamsTalkChecksAnswers has a server that answers eight requests, the last of them wrongly.
func TestStreamsTalkChecksAnswers(t *testing.T) {
	header := func(flags byte, text string) string {
		return frames.New(frames.Headers, frames.EndHeaders|flags, 1, text)
	}
	answer := header(0, "\x88") + frames.New(frames.Data, frames.EndStream, 1, server.Greeting)
	trailers := header(frames.EndStream, "\x40")
	for name, c := range map[string]struct{ last, want string }{
		"right":         {answer, ""},
		"with trailers": {header(0, "\x88") + frames.New(frames.Data, 0, 1, server.Greeting) + trailers, ""},
		"no body":       {trailers, "no body"},
		"status":        {header(0, "\x8d"), "the header of an answer"},
		"another body":  {header(0, "\x88") + frames.New(frames.Data, frames.EndStream, 1, "hello"), `the answer is "hello"`},
		"reset":         {frames.New(frames.Reset, 0, 1, "\x00\x00\x00\x08"), "a frame of type 3"},
		"GOAWAY":        {frames.New(frames.GoAway, 0, 0, "\x00\x00\x00\x00\x00\x00\x00\x00"), "a frame of type 7"},
		"end":           {"", "EOF"},
	} {
		client, peer := net.Pipe()
		go io.Copy(io.Discard, peer)
		go func() {
			io.WriteString(peer, strings.Repeat(answer, streams-1)+c.last)
			peer.Close()
		}()
		talk, err := newStreamsTalk(client, &connections{kind: server.HTTP2, body: server.Greeting})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		answers := 0
		err = talk.exchange(func(n int) bool { answers += n; return false })
		if c.want == "" && (err != nil || answers != streams) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %d answers, %v; want error %q", name, answers, err, c.want)
		}
		client.Close()
	}
}
