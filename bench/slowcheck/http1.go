package main

import "fmt"

func (t *target) getRequest(path string) string {
	return fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, t.host)
}

// postRequest returns the header of a request with a body.
func (t *target) postRequest(fields string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", t.post, t.host, fields)
}

const (
	byLength = "Content-Length: 1000000\r\n"
	chunked  = "Transfer-Encoding: chunked\r\n"
)

func http1Cases() []slowCase {
	h1 := func(name, does, limit string, run func(p *peer)) slowCase {
		return slowCase{Name: "h1-" + name, Does: does, Limit: limit, run: run}
	}
	soon := func(c slowCase) slowCase { c.soon = true; return c }
	// A server may begin to wait before we have read its answer.
	ask := func(more string) func(p *peer) {
		return func(p *peer) {
			p.slow()
			p.send(p.getRequest(p.get) + more)
		}
	}
	// A body begins with the fields of its header and some text, and may go on with more
	// after each pause.
	upload := func(name, does, limit string, fields, text, more string) slowCase {
		c := h1(name, does, limit, func(p *peer) {
			p.slow()
			p.send(p.postRequest(fields) + text)
			if more != "" {
				p.again(more)
			}
		})
		c.needs = "post"
		return c
	}
	large := func(name, does, limit string, small bool, n int) slowCase {
		c := h1(name, does, limit, func(p *peer) {
			p.slow()
			p.send(p.getRequest(p.large))
			p.sip(n)
		})
		c.needs, c.reads, c.small = "large", true, small
		return c
	}
	return []slowCase{
		h1("line-stops", "sends half a request line", header, say("GET /")),
		h1("header-trickle", "sends a header without an end byte by byte", header, func(p *peer) {
			p.trickle("GET "+p.get+" HTTP/1.1\r\nHost: "+p.host+"\r\nX: ", "x")
		}),
		soon(h1("blank-lines", "sends blank lines instead of a request", header, func(p *peer) { p.again("\r\n") })),
		h1("idle", "makes a request, and never another", keepAlive, ask("")),
		h1("pipelined-half", "sends a request, and half of the next in the same packet", header, ask("GET / HT")),
		upload("body-stops", "sends the beginning of a body", body, byLength, "beginning", ""),
		upload("body-trickle", "sends a body byte by byte", bodyRate, byLength, "", "x"),
		upload("chunk-trickle", "sends a body in chunks of one byte", bodyRate, chunked, "", "1\r\nx\r\n"),
		upload("expect", "asks with Expect: 100-continue, and sends no body", body, "Expect: 100-continue\r\n"+byLength, "", ""),
		large("read-stops", "asks for something large, and reads nothing", write, false, 0),
		large("read-sips", "asks for something large, and reads 50 bytes per second", writeRate, true, 50),
		soon(h1("half-close", "makes a request, and closes its half", endOfInput, func(p *peer) {
			ask("")(p)
			p.wire.CloseWrite()
		})),
	}
}
