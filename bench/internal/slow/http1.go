package slow

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

func (t *Target) get(path string) string {
	return fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, t.Host)
}

// post returns the header of a request with a body.
func (t *Target) post(fields string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", t.Post, t.Host, fields)
}

const (
	byLength = "Content-Length: 1000000\r\n"
	chunked  = "Transfer-Encoding: chunked\r\n"
)

func http1Cases() []Case {
	post := need("post", func(t *Target) string { return t.Post })
	large := need("large", func(t *Target) string { return t.Large })
	get := need("get", func(t *Target) string { return t.Get })
	h1 := func(name, does string, limit Limit, needs func(*Target) string, run func(p *peer) error) Case {
		return Case{Name: "h1-" + name, Protocol: "h1", Does: does, Limit: limit, needs: needs, run: run}
	}
	header := func(name, does string, run func(p *peer) error) Case {
		return beside("h1-slow-header", h1(name, does, Header, get, run))
	}
	// A body begins with the fields of its header and some text, and may go on with more after each pause.
	body := func(name, does string, limit Limit, control, begin, more string) Case {
		return beside(control, h1(name, does, limit, post, func(p *peer) error {
			p.slow()
			fields, text, _ := strings.Cut(begin, "|")
			p.send(p.post(fields) + text)
			if more == "" {
				return nil
			}
			return p.again(more)
		}))
	}
	honest := func(reason, name, does string, needs func(*Target) string, run func(p *peer) error) Case {
		return control(reason, unread(h1(name, does, "", needs, run)))
	}
	return []Case{
		header("line-stops", "sends half a request line", say("GET /")),
		header("header-stops", "sends half a header", func(p *peer) error {
			p.send("GET " + p.Get + " HTTP/1.1\r\nHost: " + p.Host + "\r\nUser-Agent: x")
			return nil
		}),
		header("header-trickle", "sends a header without an end byte by byte", func(p *peer) error {
			return p.trickle("GET "+p.Get+" HTTP/1.1\r\nHost: "+p.Host+"\r\nX: ", "x")
		}),
		header("header-fields", "sends one field after another, and never the end of the header", func(p *peer) error {
			p.send("GET " + p.Get + " HTTP/1.1\r\nHost: " + p.Host + "\r\n")
			return p.again("X: x\r\n")
		}),
		soon(h1("blank-lines", "sends blank lines instead of a request", Header, get, func(p *peer) error { return p.again("\r\n") })),
		beside("h1-comes-back", unread(h1("idle", "makes a request, and never another", KeepAlive, get, afterAnswer(nothing)))),
		soon(unread(h1("idle-blank-lines", "makes a request, and then sends blank lines", KeepAlive, get, afterAnswer(func(p *peer) error { return p.again("\r\n") })))),
		beside("h1-pipelines", h1("pipelined-half", "sends a request, and half of the next in the same packet", Header, get, func(p *peer) error {
			p.slow()
			p.send(p.get(p.Get) + "GET " + p.Get + " HT")
			return nil
		})),
		body("body-stops", "sends the beginning of a body", Body, "h1-slow-upload", byLength+"|beginning", ""),
		body("body-trickle", "sends a body byte by byte", BodyRate, "h1-slow-upload", byLength, "x"),
		body("chunk-stops", "sends the size of a chunk, and nothing of the chunk", Body, "h1-slow-chunks", chunked+"|100\r\n", ""),
		body("chunk-trickle", "sends a body in chunks of one byte", BodyRate, "h1-slow-chunks", chunked, "1\r\nx\r\n"),
		body("chunk-extension", "sends a chunk extension without an end", BodyRate, "h1-slow-chunks", chunked+"|1;x=", "x"),
		body("trailers", "ends a body with trailers without an end", BodyRate, "h1-slow-chunks", chunked+"|1\r\nx\r\n0\r\n", "X: x\r\n"),
		body("expect", "asks with Expect: 100-continue, and sends no body", Body, "h1-expects", "Expect: 100-continue\r\n"+byLength, ""),
		soon(h1("connect", "sends CONNECT, and nothing more", KeepAlive, get, say("CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n"))),
		soon(h1("upgrade", "asks to switch to another protocol, and sends nothing more", KeepAlive, get, func(p *peer) error {
			p.slow()
			p.send(strings.Replace(p.get(p.Get), "\r\n\r\n", "\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", 1))
			return nil
		})),
		beside("h1-bursts", unread(h1("read-stops", "asks for something large, and reads nothing", Write, large, func(p *peer) error {
			p.slow()
			p.send(p.get(p.Large))
			return p.sip(0)
		}))),
		beside("h1-bursts", small(h1("read-sips", "asks for something large, and reads 50 bytes a second", WriteRate, large, func(p *peer) error {
			p.slow()
			p.send(p.get(p.Large))
			return p.sip(50)
		}))),
		beside("h1-pipelines", small(h1("read-none-of-many", "asks for small things without end, and reads nothing", Write, get, func(p *peer) error {
			p.slow()
			go func() {
				for !p.isGone() {
					p.send(strings.Repeat(p.get(p.Get), 50)) // until the buffers of both sides are full
				}
			}()
			return p.sip(0)
		}))),
		soon(h1("half-close", "makes a request, and closes its half", EndOfInput, get, func(p *peer) error {
			p.slow()
			p.send(p.get(p.Get))
			return p.wire.CloseWrite()
		})),

		honest("browsers connect ahead of need", "preconnect", "connects, and makes its request 3 s later", get, func(p *peer) error {
			if p.rest(3 * time.Second) {
				p.send(p.get(p.Get))
			}
			return p.mustAnswer("GET")
		}),
		honest("bad links lose packets", "slow-header", "sends a header in pieces over 3 s", get, func(p *peer) error {
			if _, err := p.inPieces(p.conn, []byte(p.get(p.Get))); err != nil {
				return err
			}
			return p.mustAnswer("GET")
		}),
		honest("a phone in a train has such a link", "slow-upload", "sends 2,000 bytes a second for 20 s", post, func(p *peer) error {
			p.send(p.post(fmt.Sprintf("Content-Length: %d\r\n", uploads*uploadSize)))
			if err := p.upload(func(piece string) error { return p.write(piece) }); err != nil {
				return err
			}
			return p.mustAnswer("POST")
		}),
		honest("a phone in a train has such a link", "slow-chunks", "sends 2,000 bytes a second in chunks for 20 s, and then trailers", post, func(p *peer) error {
			p.send(p.post(chunked))
			if err := p.upload(func(piece string) error { return p.write(fmt.Sprintf("%x\r\n%s\r\n", len(piece), piece)) }); err != nil {
				return err
			}
			p.send("0\r\nX: x\r\n\r\n")
			return p.mustAnswer("POST")
		}),
		honest("curl does so", "expects", "waits a second for 100 (Continue), and then sends its body", post, func(p *peer) error {
			p.send(p.post("Expect: 100-continue\r\nContent-Length: 5\r\n"))
			p.rest(time.Second)
			p.send("hello")
			return p.mustAnswer("POST")
		}),
		honest("HTTP/1.1 allows it", "pipelines", "sends a request and a half, and the rest a second later", get, func(p *peer) error {
			text := p.get(p.Get)
			p.send(text + text[:8])
			p.rest(time.Second)
			p.send(text[8:])
			return errors.Join(p.mustAnswer("GET"), p.mustAnswer("GET"))
		}),
		honest("a player fills its buffer like this", "bursts", "reads 256 kB of something large every 2 s", large, func(p *peer) error {
			p.send(p.get(p.Large))
			resp, err := http.ReadResponse(p.in, nil)
			if err != nil {
				return err
			}
			for range 8 {
				if _, err := io.CopyN(io.Discard, resp.Body, 256<<10); errors.Is(err, io.EOF) {
					return nil
				} else if err != nil {
					return err
				}
				if !p.rest(2 * time.Second) {
					return errGone
				}
			}
			_, err = io.Copy(io.Discard, resp.Body)
			return err
		}),
		honest("an event stream may be silent", "events", "waits 40 s for events that don't come", need("stream", func(t *Target) string { return t.Stream }), func(p *peer) error {
			p.send(p.get(p.Stream))
			resp, err := http.ReadResponse(p.in, nil)
			if err != nil {
				return err
			}
			p.conn.SetReadDeadline(time.Now().Add(p.silence()))
			if _, err := io.Copy(io.Discard, resp.Body); !isTimeout(err) {
				return errors.New("the stream has ended")
			}
			return nil
		}),
		honest("that is what keep-alive is for", "comes-back", "makes a request every 4 s over one connection", get, func(p *peer) error {
			for range 5 {
				p.send(p.get(p.Get))
				if err := p.mustAnswer("GET"); err != nil {
					return err
				}
				if !p.rest(4 * time.Second) {
					return errGone
				}
			}
			return nil
		}),
	}
}

// say is a case that sends something and then waits.
func say(text string) func(*peer) error {
	return func(p *peer) error {
		p.send(text)
		return nil
	}
}

// afterAnswer is a case that makes a request, and is slow when it's answered.
func afterAnswer(then func(*peer) error) func(*peer) error {
	return func(p *peer) error {
		p.slow() // the server begins to wait before we have read its answer
		p.send(p.get(p.Get))
		if err := p.mustAnswer("GET"); err != nil {
			return err
		}
		p.conn.SetReadDeadline(time.Time{})
		go p.readAll()
		return then(p)
	}
}

// An honest upload has so many pieces of so many bytes, two a second.
const uploads, uploadSize = 40, 1000

// upload sends an honest upload.
func (p *peer) upload(send func(piece string) error) error {
	for range uploads {
		if err := send(strings.Repeat("x", uploadSize)); err != nil {
			return err
		}
		if !p.rest(time.Second / 2) {
			return errGone
		}
	}
	return nil
}

// silence is how long an honest client is silent: 40 s if there is time for it.
func (p *peer) silence() time.Duration { return min(40*time.Second, p.GiveUp*3/4) }

// mustAnswer reads an answer, which must be a good one.
func (p *peer) mustAnswer(method string) error {
	p.conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	resp, err := readResponse(p.in, method)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode >= 400 {
		return fmt.Errorf("the answer is %s", resp.Status)
	}
	return nil
}

// readResponse reads the first response that is not an interim one.
func readResponse(in *bufio.Reader, method string) (*http.Response, error) {
	for {
		resp, err := http.ReadResponse(in, &http.Request{Method: method})
		if err != nil || resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols {
			return resp, err
		}
	}
}
