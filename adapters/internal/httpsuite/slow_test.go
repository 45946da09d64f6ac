package httpsuite

import (
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// A slow is a promise about clients that keep the server waiting: a setting ends them, they get
// the right answer, and callbacks, errors and counts say why.
type slow struct {
	name    string
	in      func(flavour) bool
	setting string
	clients [][]string    // what each sends: requests that are answered, and at last one that is too slow
	shakes  bool          // the client completes the TLS handshake although HandshakeTimeout is tested
	pause   time.Duration // before the slow request
	trickle string        // what follows it byte by byte
	pace    time.Duration // the time between two of these bytes
	streams bool          // the handler reads the body while it arrives, and gets the error
	sips    bool          // the client reads a little from time to time
	keeps   bool          // also tested with OnTimeout and with Shutdown; one per setting
}

var slowClients = []slow{
	{name: "SilentConnection", in: everywhere, setting: "HandshakeTimeout", keeps: true, clients: [][]string{{""}}},
	// A client that stops in its TLS handshake gets no answer in plaintext, and nothing is logged.
	{name: "HalfOpenHandshake", in: secure, setting: "HandshakeTimeout", clients: [][]string{{"\x16\x03"}, {"\x16\x03\x01\x01\x00\x01\x00"}}},
	{name: "HandshakeTrickles", in: secure, setting: "HandshakeTimeout", trickle: "\x03\x01\x02\x00" + strings.Repeat("\x01", 500), pace: limit / 10,
		clients: [][]string{{"\x16"}}},
	// After the TLS handshake, HandshakeTimeout still counts until the first byte of a request.
	{name: "SilentAfterTheHandshake", in: secure, setting: "HandshakeTimeout", shakes: true, clients: [][]string{{""}}},

	// A header that trickles in can't extend its limit, in the first request or a later one.
	{name: "HeaderTrickles", in: everywhere, setting: "HeaderTimeout", trickle: strings.Repeat("X: y\r\n", 1000), pace: limit / 20,
		clients: [][]string{{"GET / HTTP/1.1\r\n"}, {Get("/"), "GET / HTTP/1.1\r\n"}}},
	// The client gets one answer: the adapter's, and not also the one that the server itself
	// writes when its Read fails.
	{name: "AnsweredOnce", in: plain, setting: "HeaderTimeout", trickle: strings.Repeat("x", 500), pace: 5 * ms,
		clients: slices.Repeat([][]string{{"GET / HTTP/1.1\r\nX: "}}, 100)},
	{name: "HeaderStops", in: usual, setting: "HeaderTimeout", keeps: true,
		clients: [][]string{{"G"}, {"GET / HTTP/1.1\r\n"}, {"GET / HTTP/1.1\r\nHost: test\r\n\r"}, {"PRI * HTTP/2.0\r"}, {Get("/"), "GET"}}},
	// The first byte may come as late as HandshakeTimeout or KeepAliveTimeout allows. HeaderTimeout
	// counts from there, and another byte just before it passes doesn't extend it.
	{name: "FirstByteBeginsTheHeader", in: plain, setting: "HeaderTimeout", pause: 2 * limit, trickle: strings.Repeat("E", 100), pace: limit - 50*ms,
		clients: [][]string{{"G"}, {Get("/"), "G"}}},

	{name: "BodyStops", in: everywhere, setting: "BodyTimeout",
		clients: [][]string{{Get("/"), Post(10_000)}, {Get("/"), Post(10_000) + "hello"}}},
	{name: "ChunksStop", in: usual, setting: "BodyTimeout",
		clients: [][]string{{chunked}, {chunked + "5"}, {chunked + "5\r\nhe"}, {chunked + "5\r\nhello\r\n"}}},
	// fasthttp turns a timeout in the trailer into another error, and logs that.
	{name: "TrailerStops", in: usual, setting: "BodyTimeout", clients: [][]string{{chunked + "0\r\n"}}},
	// If the handler doesn't read the body, the server does, before it sends the response.
	{name: "UploadStops", in: usual, setting: "BodyTimeout", keeps: true, streams: true, clients: [][]string{{Post(2*len(half)) + half}}},
	// Each byte pays for 1/BodyRate of time, so bytes that come more slowly aren't enough.
	{name: "BodyBelowTheRate", in: everywhere, setting: "BodyRate", trickle: half[:999], pace: limit / 15, clients: [][]string{{Post(1000)}}},
	{name: "UploadBelowTheRate", in: usual, setting: "BodyRate", keeps: true, streams: true, clients: [][]string{{Post(2*len(half)) + half[:9000]}}},

	// Earlier requests don't count. The request's context is cancelled if the server supports that.
	{name: "HandlerTimeout", in: everywhere, setting: "HandlerTimeout", keeps: true,
		clients: [][]string{{Get("/long")}, {Get("/"), Get("/"), Get("/long")}, {Post(5) + "hello", postTo("/long", 5) + "hello"}}},
	// To a server without HTTP/2, its preface is a request.
	{name: "PrefaceIsARequest", in: plain, setting: "HandlerTimeout", clients: [][]string{{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"}}},
	// HandlerTimeout counts while the handler reads the body, too.
	{name: "HandlerTimeoutInTheBody", in: usual, setting: "HandlerTimeout", trickle: half, pace: 20 * ms, clients: [][]string{{Post(len(half))}}},

	{name: "ReaderStops", in: everywhere, setting: "WriteTimeout", keeps: true, clients: [][]string{{Get("/large")}}},
	// The same with a file, which the server may send with sendfile.
	{name: "ReaderOfAFileStops", in: usual, setting: "WriteTimeout", clients: [][]string{{Get("/file")}}},
	// The phase is "request" although the client paused before it sent the request.
	{name: "ReaderStopsLater", in: usual, setting: "WriteTimeout", pause: limit / 3, clients: [][]string{{Get("/large")}, {Get("/"), Get("/large")}}},
	{name: "ReaderIsTooSlow", in: usual, setting: "WriteRate", keeps: true, clients: [][]string{{Get("/large")}}},
	// Reading a little from time to time isn't enough.
	{name: "ReaderSips", in: usual, setting: "WriteRate", sips: true, clients: [][]string{{Get("/large")}}},

	// KeepAliveTimeout applies after requests of all kinds.
	{name: "KeepAlive", in: everywhere, setting: "KeepAliveTimeout", keeps: true, clients: [][]string{{Get("/"), Get("/"), ""},
		{Post(3) + "abc", Post(3) + "abc", ""}, {Post(0), ""}, {chunked + "3\r\nabc\r\n0\r\n\r\n", ""},
		{"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", ""}}},
	{name: "HijackedIdle", in: wraps, setting: "IdleTimeout", keeps: true, clients: [][]string{{Get("/"), Upgrade}}},
}

// A kind says how a timeout by a setting is reported.
type kind struct {
	phase  string
	reason idle.Reason
	status int // of the answer, 0 if there is none
}

var kinds = map[string]kind{
	"HandshakeTimeout": {"handshake", idle.ReasonPhase, 0},
	"HeaderTimeout":    {"request header", idle.ReasonPhase, http.StatusRequestTimeout},
	"BodyTimeout":      {"request", idle.ReasonRead, http.StatusRequestTimeout},
	"BodyRate":         {"request", idle.ReasonMinReadRate, http.StatusRequestTimeout},
	"HandlerTimeout":   {"request", idle.ReasonPhase, http.StatusServiceUnavailable},
	"WriteTimeout":     {"request", idle.ReasonWrite, 0},
	"WriteRate":        {"request", idle.ReasonMinWriteRate, 0},
	"KeepAliveTimeout": {"keep-alive", idle.ReasonPhase, 0},
	"IdleTimeout":      {"hijacked", idle.ReasonIdle, 0},
}

// ofSlowClients returns a promise for each of slowClients, and two more: OnTimeout can keep
// connections open, and limits apply during Shutdown, so a slow client can't delay it for long.
func ofSlowClients() (all []promise) {
	for _, w := range slowClients {
		all = append(all, promise{w.name, w.in, func(t *testing.T, u under) { w.test(t, u, 0, false) }})
	}
	keeping := map[string]slow{}
	for _, w := range slowClients {
		if w.keeps {
			keeping[w.setting] = w
		}
	}
	kept := each("KeptTwice", usual, keeping, func(t *testing.T, u under, _ string, w slow) { w.test(t, u, 2, false) })
	return slices.Concat(all, kept, each("LimitsGoOnDuringShutdown", usual, keeping, func(t *testing.T, u under, setting string, w slow) {
		if setting == "KeepAliveTimeout" || setting == "IdleTimeout" || setting == "HeaderTimeout" && u.secure {
			t.Skip("Shutdown doesn't wait for them")
		}
		w.test(t, u, 0, true)
	}))
}

// test runs the clients. OnTimeout keeps each connection open keeps times. If shutsDown is set,
// the server is shut down meanwhile.
func (w slow) test(t *testing.T, u under, keeps int, shutsDown bool) {
	k, ofWriting := kinds[w.setting], strings.HasPrefix(w.setting, "Write")
	var mu sync.Mutex
	asked := map[string][]idle.TimeoutError{} // by the address of clients that have sent everything
	to := Only(limit, w.setting)
	to.OnTimeout = func(c net.Conn, err *idle.TimeoutError) bool {
		mu.Lock()
		defer mu.Unlock()
		peer := c.RemoteAddr().String()
		before, ready := asked[peer]
		if ready {
			asked[peer] = append(before, *err)
		}
		return !ready || len(before) < keeps
	}
	to.OnEnd = func(net.Conn, *idle.TimeoutError) { time.Sleep(ms) } // the server may close the connection meanwhile
	late := func(c *Client) {
		mu.Lock()
		defer mu.Unlock()
		asked[c.LocalAddr().String()] = nil
	}
	if w.name == "PrefaceIsARequest" && u.refusesPreface {
		t.Skip("the server refuses it before it has a limit")
	}
	h, told, release := routes(t, u, strings.Contains(w.clients[0][0], "/file"))
	defer release()
	var entered atomic.Int64
	s := u.start(t, to, func(r request) { entered.Add(1); h(r) }, func(c *config) {
		c.streamBodies = w.streams
		if w.name == "TrailerStops" && u.logsTrailers {
			c.log = io.Discard
		}
	})
	begun := map[*Client]time.Time{}
	for _, texts := range w.clients {
		last := len(texts) - 1
		if last == 0 && w.setting == "HeaderTimeout" && u.secure && (w.trickle == "" || !u.firstHeaderInTLS) {
			continue // it may count as part of the handshake
		}
		if shutsDown && last > 0 {
			continue // the server may consider the connection idle
		}
		c := s.DialBare()
		begun[c] = c.Begun
		if u.secure && (w.setting != "HandshakeTimeout" || w.shakes) {
			c.Shake()
		}
		if ofWriting {
			c.Narrow(16 << 10)
		}
		for _, request := range texts[:last] {
			begun[c] = c.Send(request)
			c.Want(http.StatusOK)
		}
		time.Sleep(w.pause)
		if texts[last] != "" {
			sent := c.Send(texts[last])
			if w.setting != "HandshakeTimeout" { // HandshakeTimeout counts from the accept
				begun[c] = sent
			}
		}
		if shutsDown {
			continue
		}
		if w.setting == "IdleTimeout" {
			c.Line("ready")
		}
		late(c)
		if w.trickle != "" {
			defer c.Trickle(w.trickle, w.pace)()
		}
		if w.sips {
			go func() {
				for b := make([]byte, 1<<10); ; time.Sleep(20 * ms) {
					if _, err := c.Read(b); err != nil {
						return
					}
				}
			}()
		}
	}
	n := len(begun)
	var down <-chan error
	if shutsDown {
		Eventually(t, "all are accepted, and their handlers called", func() bool {
			return s.Stats().Live == uint64(n) && (k.phase != "request" || entered.Load() == int64(n))
		})
		down = s.shutDown(Patience)
		for c := range begun {
			late(c)
		}
		Eventually(t, "all are closed", func() bool { return s.Stats().Live == 0 })
	}
	if ofWriting { // before the client reads, which would be progress
		s.WantOnly(uint64(n), k.phase, k.reason)
	}
	for c, begun := range begun {
		var at time.Time
		switch {
		case k.status != 0:
			at = c.Refused(k.status)
		case w.sips:
			at = time.Now()
		case ofWriting:
			at = c.wantReset()
		default:
			at = c.WantClosed()
		}
		NotBefore(t, at, begun, time.Duration(keeps+1)*limit)
	}
	for range begun {
		if w.streams || w.setting == "IdleTimeout" || ofWriting && u.writeErrors && !strings.Contains(w.name, "File") {
			wantTimeout(t, Receive(t, told), k.phase, k.reason)
		}
	}
	s.WantOnly(uint64(n), k.phase, k.reason)
	if release(); shutsDown {
		NoError(t, Receive(t, down))
	}
	mu.Lock()
	defer mu.Unlock()
	for peer, errs := range asked {
		if len(errs) <= keeps { // it may be asked more often, if a late byte extended the limit
			t.Errorf("asked %d times about %s", len(errs), peer)
		}
		for _, err := range errs {
			if wantTimeout(t, &err, k.phase, k.reason); err.Limit != limit || err.Elapsed < limit {
				t.Errorf("asked about %+v", err)
			}
		}
	}
	if st := s.Stats(); st.Extended < uint64(keeps*n) {
		t.Errorf("%d were kept", st.Extended)
	}
}

// routes returns a handler that does what the path says. The channel gets its errors of reading
// and writing. withFile prepares /file, and release ends /long.
func routes(t *testing.T, u under, withFile bool) (h func(request), told chan error, release func()) {
	released, file := make(chan bool), ""
	told = make(chan error, 100)
	if withFile {
		file = largeFile(t)
	}
	takeOver, ended := hijack(echoLines)
	return func(r request) {
		body, err := io.ReadAll(r.Body())
		if err != nil {
			told <- err
			return
		}
		switch r.Path() {
		case "/hijack":
			takeOver(r)
			go func() { told <- <-ended }() // it outlives the handler
		case "/long", "*", "/*": // "*" and "/*" come from the preface of HTTP/2
			if u.cancels {
				<-r.Done()
			} else {
				<-released
			}
			io.WriteString(r, "too late")
		case "/large":
			_, err = r.Write(Large)
		case "/file":
			r.File(file)
		default:
			r.Write(body)
		}
		if err != nil {
			told <- err
		}
	}, told, sync.OnceFunc(func() { close(released) })
}
