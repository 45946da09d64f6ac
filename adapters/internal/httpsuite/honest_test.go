package httpsuite

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// half is half of a large body. It's more than servers read before they call the handler.
var half = strings.Repeat("x", 50<<10)

// An honest is a promise to clients that exceed no limit: they are served, however slow they or
// their handlers are.
type honest struct {
	name  string
	in    func(flavour) bool
	to    Timeouts
	long  time.Duration // how long handlers of /long and /unread take; /unread doesn't read the body
	steps []step
}

// In a step, a client sends something, pauses, and reads responses. A response is the path of
// the request, followed by its body.
type step struct {
	sends string
	pause time.Duration
	gets  []string
}

// both is a step of one request and its response.
func both(request, response string) step { return step{request, 0, []string{response}} }

var honestClients = func() []honest {
	const limit = 2 * limit
	bodyRate := Only(limit, "BodyTimeout")
	bodyRate.BodyRate = idle.Rate{BytesPerSecond: 500, Grace: limit}
	keepAlive := All(limit / 4)
	keepAlive.HandshakeTimeout, keepAlive.KeepAliveTimeout = limit, limit
	keepAlive.BodyRate = idle.Rate{BytesPerSecond: 100, Grace: limit / 4}
	latePipeline := All(limit)
	latePipeline.HandshakeTimeout = Patience
	all := []honest{
		// A browser may connect before it needs the connection, and be silent until
		// HandshakeTimeout.
		{"AheadOfNeed", secure, Only(limit, "HeaderTimeout"), 0, []step{{"", 2 * limit, nil}, both(Get("/"), "/")}},
		// A body at twice the minimum rate may take much longer than the limits, in each
		// request.
		{"BodyAboveTheRate", usual, bodyRate, 0, slices.Repeat(slices.Concat([]step{{Post(30 * 50), 0, nil}},
			slices.Repeat([]step{{half[:50], 50 * ms, nil}}, 29), []step{both(half[:50], "/"+half[:30*50])}), 2)},
		// KeepAliveTimeout starts over with each response. The limits of the handshake, the
		// header and the body don't count while the client waits to send the next request.
		{"KeepAliveBeginsAnew", usual, keepAlive, 0, slices.Repeat([]step{both(Post(3)+"abc", "/abc"), {"", limit / 2, nil}}, 4)},
		// A client may send its next request while a long handler runs. Both are served.
		{"PipeliningBehindALongHandler", usual, latePipeline, 3 * limit,
			[]step{{Get("/long"), limit / 2, nil}, {Get("/next"), 0, []string{"/long", "/next"}}}},
		// HandlerTimeout is per request. It doesn't count over several requests, nor between
		// them.
		{"HandlerTimeoutBeginsAnew", plain, Only(limit, "HandlerTimeout"), limit / 3, []step{
			{strings.Repeat(Get("/long"), 3), 0, []string{"/long", "/long", "/long"}}, both(Get("/long"), "/long"),
			{"", limit * 3 / 2, nil}, both(Get("/long"), "/long")}},
		// With all limits off, any pause is allowed.
		{"Off", usual, Off(), 0, []step{{"", limit, nil}, {Post(3)[:5], limit, nil}, {Post(3)[5:], limit, nil},
			both("abc", "/abc"), {"", limit, nil}, both(Get("/"), "/")}},
	}

	// Many pipelined requests are served, wherever the segments are split.
	pipelining := honest{name: "Pipelining", in: everywhere, to: All(Patience)}
	for text := strings.Repeat(Get("/a")+Post(5)+"hello", 20); text != ""; {
		cut := min(len(text), 37)
		pipelining.steps = append(pipelining.steps, step{sends: text[:cut]})
		text = text[cut:]
	}
	pipelining.steps = append(pipelining.steps, step{gets: slices.Repeat([]string{"/a", "/hello"}, 20)})
	all = append(all, pipelining)

	// A handler may take long without its client being cut, whatever was requested before.
	handlers := All(limit)
	handlers.BodyRate = idle.Rate{BytesPerSecond: 1000, Grace: limit}
	handlers.WriteRate = handlers.BodyRate
	quick, long := both(Get("/"), "/"), both(Get("/long"), "/long")
	longAfter := func(name string, in func(flavour) bool, steps ...step) {
		all = append(all, honest{"LongHandler" + name, in, handlers, 3 * limit, steps})
	}
	longAfter("First", usual, long)
	longAfter("OneByOne", everywhere, long, quick, quick, quick, long)
	longAfter("AfterTwo", everywhere, both(Post(5)+"hello", "/hello"), both(postTo("/long", 5)+"hello", "/longhello"))
	longAfter("UnreadBody", usual, both(postTo("/unread", 5)+"hello", "/unread"))
	longAfter("HTTP10", usual, both("GET /long HTTP/1.0\r\n\r\n", "/long"))
	longAfter("Chunked", usual, both(strings.Replace(chunked, "/", "/long", 1)+"2\r\nhi\r\n0\r\n\r\n", "/longhi"))
	longAfter("HeaderInParts", usual, step{Get("/long")[:7], 20 * ms, nil}, both(Get("/long")[7:], "/long"))
	longAfter("BodyToCome", usual, both("POST /unread HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Length: 5\r\n\r\n", "/unread"))
	longAfter("AskedToCome", usual, both("POST /unread HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n", "/unread"))
	return all
}()

// ofHonestClients returns a promise for each of honestClients.
func ofHonestClients() (all []promise) {
	for _, h := range honestClients {
		all = append(all, promise{h.name, h.in, h.test})
	}
	return all
}

func (h honest) test(t *testing.T, u under) {
	toCome := strings.HasSuffix(h.name, "ToCome") // the body, after the response
	if toCome && !u.callsEarly {
		t.Skip("the handler is not called before the body has come")
	}
	s := u.start(t, h.to, func(r request) {
		answer := r.Path()
		if answer != "/unread" {
			b, err := io.ReadAll(r.Body())
			if err != nil {
				t.Error(err)
			}
			answer += string(b)
		}
		if r.Path() == "/long" || r.Path() == "/unread" {
			select {
			case <-r.Done():
				t.Error("the request is cancelled")
			case <-time.After(h.long):
			}
		}
		io.WriteString(r, answer)
	})
	c := s.Dial()
	for _, step := range h.steps {
		c.Send(step.sends)
		time.Sleep(step.pause)
		for _, want := range step.gets {
			if got := c.Want(http.StatusOK); got != want {
				t.Errorf("got %.40q, want %.40q", got, want)
			}
		}
	}
	if !toCome {
		s.WantNone()
	}
}
