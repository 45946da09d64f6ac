package slow

import (
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

// post returns the header of a request with a body, of which more fields follow those given.
func (t *Target) post(fields string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", t.Post, t.Host, fields)
}

func http1Cases() []Case {
	post := need("post", func(t *Target) string { return t.Post })
	large := need("large", func(t *Target) string { return t.Large })
	get := need("get", func(t *Target) string { return t.Get })
	h1 := func(name, does, limit string, needs func(*Target) string, run func(p *peer) error) Case {
		return Case{Name: "h1-" + name, Protocol: "h1", Does: does, Limit: limit, needs: needs, run: run}
	}
	unread := func(c Case) Case { c.reads = true; return c }
	small := func(c Case) Case { c.reads, c.small = true, true; return c }
	honest := func(c Case) Case { c.Control, c.reads = true, true; return c }
	return []Case{
		h1("line-stops", "sends half a request line", "of a header", get, say("GET /")),
		h1("header-stops", "sends half a header", "of a header", get, func(p *peer) error {
			return say("GET " + p.Get + " HTTP/1.1\r\nHost: " + p.Host + "\r\nUser-Agent: x")(p)
		}),
		h1("header-trickle", "sends a header byte by byte, without an end", "of a header, in all", get, func(p *peer) error {
			return p.trickle("GET "+p.Get+" HTTP/1.1\r\nHost: "+p.Host+"\r\nX: ", pause, "x")
		}),
		h1("header-fields", "sends a field of a header each second", "of a header, in all", get, func(p *peer) error {
			p.send("GET " + p.Get + " HTTP/1.1\r\nHost: " + p.Host + "\r\n")
			return p.again("X: x\r\n", pause)
		}),
		h1("blank-lines", "sends a blank line each second, and no request", "of a header, in all", get, func(p *peer) error { return p.again("\r\n", pause) }),
		h1("idle", "makes a request, and never another", "of keep-alive", get, afterAnswer(nothing)),
		h1("idle-blank-lines", "makes a request, and then sends a blank line each second", "of keep-alive", get, afterAnswer(func(p *peer) error { return p.again("\r\n", pause) })),
		h1("pipelined-half", "sends a request, and half of the next in the same packet", "of a header", get, func(p *peer) error {
			p.send(p.get(p.Get) + "GET " + p.Get + " HT")
			p.slow()
			return nil
		}),
		h1("body-stops", "sends the beginning of a body", "of a body", post, func(p *peer) error {
			return say(p.post("Content-Length: 1000000\r\n") + "beginning")(p)
		}),
		h1("body-trickle", "sends a body byte by byte", "the minimum rate of a body, or its total", post, func(p *peer) error {
			p.send(p.post("Content-Length: 1000000\r\n"))
			p.slow()
			return p.again("x", pause)
		}),
		h1("chunk-stops", "sends the size of a chunk, and nothing of it", "of a body", post, func(p *peer) error {
			return say(p.post("Transfer-Encoding: chunked\r\n") + "100\r\n")(p)
		}),
		h1("chunk-trickle", "sends a body in chunks of one byte", "the minimum rate of a body, or its total", post, func(p *peer) error {
			p.send(p.post("Transfer-Encoding: chunked\r\n"))
			return p.again("1\r\nx\r\n", pause)
		}),
		h1("chunk-extension", "sends an extension of a chunk without an end", "of a body", post, func(p *peer) error {
			p.send(p.post("Transfer-Encoding: chunked\r\n") + "1;x=")
			return p.again("x", pause)
		}),
		h1("trailers", "ends a body with trailers without an end", "of a body", post, func(p *peer) error {
			p.send(p.post("Transfer-Encoding: chunked\r\n") + "1\r\nx\r\n0\r\n")
			return p.again("X: x\r\n", pause)
		}),
		h1("expect", "asks with Expect: 100-continue, and does not go on", "of a body", post, func(p *peer) error {
			return say(p.post("Expect: 100-continue\r\nContent-Length: 1000\r\n"))(p)
		}),
		h1("connect", "sends CONNECT, and nothing more", "of keep-alive, or of a tunnel", get, func(p *peer) error {
			return say("CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n")(p)
		}),
		unread(h1("read-stops", "asks for something large, and reads nothing", "of a pause in an answer", large, func(p *peer) error {
			p.send(p.get(p.Large))
			p.slow()
			return p.sip(0)
		})),
		small(h1("read-sips", "asks for something large, and reads 50 bytes a second", "the minimum rate of an answer, or its total", large, func(p *peer) error {
			p.send(p.get(p.Large))
			p.slow()
			return p.sip(50)
		})),
		small(h1("read-none-of-many", "asks for small things without end, and reads nothing", "of a pause in an answer", get, func(p *peer) error {
			go func() {
				for !p.isGone() {
					p.send(strings.Repeat(p.get(p.Get), 50)) // until the buffers of both sides are full
				}
			}()
			return p.sip(0)
		})),
		h1("half-close", "makes a request, and closes its half", "the end of the input, after the answer", get, func(p *peer) error {
			p.send(p.get(p.Get))
			p.slow()
			return p.wire.CloseWrite()
		}),

		honest(h1("slow-header", "sends a header in pieces, within 3 s", "people have bad links", get, func(p *peer) error {
			request := p.get(p.Get)
			for part := range 4 {
				p.send(request[part*len(request)/4 : (part+1)*len(request)/4])
				if part < 3 && !p.rest(time.Second) {
					break
				}
			}
			return p.mustAnswer("GET")
		})),
		honest(h1("slow-upload", "sends 2,000 bytes a second for 20 s", "a phone in a train is no attacker", post, func(p *peer) error {
			const second, seconds = 2000, 20
			p.send(p.post(fmt.Sprintf("Content-Length: %d\r\n", second*seconds)))
			for range 2 * seconds {
				if _, err := io.WriteString(p.conn, strings.Repeat("x", second/2)); err != nil {
					return err
				}
				if !p.rest(time.Second / 2) {
					return errGone
				}
			}
			return p.mustAnswer("POST")
		})),
		honest(h1("bursts", "reads something large by 256 kB every 2 s", "a player fills its buffer so", large, func(p *peer) error {
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
		})),
		honest(h1("events", "waits for events that do not come for 30 s", "a stream of events may be silent", need("stream", func(t *Target) string { return t.Stream }), func(p *peer) error {
			p.send(p.get(p.Stream))
			resp, err := http.ReadResponse(p.in, nil)
			if err != nil {
				return err
			}
			p.conn.SetReadDeadline(time.Now().Add(min(30*time.Second, p.GiveUp*3/4)))
			if _, err := io.Copy(io.Discard, resp.Body); !isTimeout(err) {
				return fmt.Errorf("the stream has ended: %w", err)
			}
			return nil
		})),
		honest(h1("comes-back", "makes a request every 4 s over one connection", "that is what keep-alive is for", get, func(p *peer) error {
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
		})),
	}
}

// say is a case that sends something, and is slow from then on.
func say(text string) func(*peer) error {
	return func(p *peer) error {
		p.send(text)
		p.slow()
		return nil
	}
}

// afterAnswer is a case that makes a request, and is slow once it is answered.
func afterAnswer(then func(*peer) error) func(*peer) error {
	return func(p *peer) error {
		p.send(p.get(p.Get))
		if !p.rest(2 * time.Second) {
			return errors.New("the server closes after an answer")
		}
		p.slow()
		return then(p)
	}
}

// mustAnswer reads an answer, which must be a good one.
func (p *peer) mustAnswer(method string) error {
	p.conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	resp, err := http.ReadResponse(p.in, &http.Request{Method: method})
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
