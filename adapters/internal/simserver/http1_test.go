package simserver

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlehttp"
	"github.com/idlewheel/idlewheel/adapters/internal/simnet"
	"github.com/idlewheel/idlewheel/idle"
)

var (
	seeds = flag.Int("seeds", 40, "how many worlds")
	first = flag.Uint64("seed", 1, "the first of them")
)

const (
	tick   = 10 * time.Millisecond
	late   = 2*tick + tick/8 + time.Millisecond // at most, for limits of whole ticks
	buffer = 8 << 10                            // of the network, in each direction
)

var limits = idlehttp.Timeouts{
	HandshakeTimeout: 4 * time.Second,
	HeaderTimeout:    3 * time.Second,
	BodyTimeout:      5 * time.Second,
	BodyRate:         idle.Rate{BytesPerSecond: 1000, Grace: 5 * time.Second},
	WriteTimeout:     time.Minute,
	WriteRate:        idle.Rate{BytesPerSecond: 100_000, Grace: 6 * time.Second},
	KeepAliveTimeout: 2 * time.Second,
	Idle:             idle.Options{Tick: tick},
}

// A world is a server and its clients.
type world struct {
	t    *testing.T
	seed uint64
	net  *simnet.Listener

	mu      sync.Mutex
	begun   map[string]bool // requests whose handler has begun
	ended   map[string]end  // connections that a limit has ended, by address
	drained time.Time       // when a drain has reached all connections
}

type end struct {
	at  time.Time
	err *idle.TimeoutError
}

func (w *world) errorf(format string, args ...any) {
	w.t.Helper()
	w.t.Errorf("seed %d: %s", w.seed, fmt.Sprintf(format, args...))
}

// ServeHTTP answers a request. Its path is /id/size/milliseconds: the number of the request, the
// length of the response, and how long the handler sleeps before the response and again halfway
// through it.
func (w *world) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	var size, ms int
	part := strings.Split(r.URL.Path, "/")
	size, _ = strconv.Atoi(part[2])
	ms, _ = strconv.Atoi(part[3])
	w.mu.Lock()
	w.begun[part[1]] = true
	w.mu.Unlock()
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	time.Sleep(time.Duration(ms) * time.Millisecond)
	text := strings.Repeat("x", size/2)
	rw.Header().Set("Content-Length", strconv.Itoa(2*len(text)))
	rw.Header().Set("At", time.Now().Format(time.RFC3339Nano))
	io.WriteString(rw, text)
	http.NewResponseController(rw).Flush()
	time.Sleep(time.Duration(ms) * time.Millisecond)
	io.WriteString(rw, text)
}

// run runs a world to its end.
func run(t *testing.T, seed uint64) {
	synctest.Test(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(seed, 0))
		w := &world{t: t, seed: seed, net: simnet.Listen(seed, buffer), begun: map[string]bool{}, ended: map[string]end{}}
		server := &http.Server{Handler: w, ErrorLog: log.New(io.Discard, "", 0)}
		limits := limits
		limits.OnEnd = func(nc net.Conn, err *idle.TimeoutError) {
			w.mu.Lock()
			w.ended[nc.RemoteAddr().String()] = end{time.Now(), err}
			pause := time.Duration(rng.IntN(3)) * tick
			w.mu.Unlock()
			time.Sleep(pause) // it may write to the client, which may write as well
		}
		l, err := idlehttp.Wrap(server, w.net, limits)
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error, 1)
		go func() { served <- server.Serve(l) }()

		var clients sync.WaitGroup
		for i := range 20 {
			c := client{world: w, rng: rand.New(rand.NewPCG(seed, uint64(i)+1)), name: strconv.Itoa(i)}
			clients.Go(func() {
				time.Sleep(time.Duration(c.rng.IntN(3000)) * time.Millisecond)
				kinds[c.rng.IntN(len(kinds))](&c)
			})
		}
		w.mu.Lock()
		early, after := rng.IntN(2) == 0, time.Duration(1000+rng.IntN(10_000))*time.Millisecond
		w.mu.Unlock()
		if early {
			time.Sleep(after)
		} else {
			clients.Wait()
		}
		const over = time.Second
		w.mu.Lock()
		w.drained = time.Now().Add(over + 2*tick)
		w.mu.Unlock()
		begun := time.Now()
		if err := idlehttp.Shutdown(t.Context(), idle.Drain{Duration: over, ForceAfter: 2 * time.Minute}, l); err != nil {
			w.errorf("Shutdown: %v", err)
		}
		if took := time.Since(begun); took > 2*time.Minute+time.Second {
			w.errorf("Shutdown took %v", took)
		}
		clients.Wait()
		<-served
		if st := l.Stats(); st.Live != 0 || st.Panics != 0 {
			w.errorf("left: %d, panics: %d", st.Live, st.Panics)
		}
		time.Sleep(time.Minute) // for callbacks that are running; a goroutine that is left fails the test
	})
}

// A client is one connection.
type client struct {
	*world
	rng      *rand.Rand
	name     string
	requests int
	nc       *simnet.Conn
	in       *bufio.Reader
}

// kinds are what clients do.
var kinds = []func(*client){
	(*client).honest, (*client).honest, (*client).honest, (*client).honest, (*client).impatient,
	(*client).noHeader, (*client).halfHeader, (*client).halfBody, (*client).idles, (*client).neverReads,
}

// dial connects. It reports false if the server has left.
func (c *client) dial() bool {
	nc, err := c.net.Dial()
	if err != nil {
		return false
	}
	c.nc, c.in = nc, bufio.NewReader(nc)
	return true
}

// request returns the text of a request, and its id.
func (c *client) request(body, size, ms int) (id, text string) {
	c.requests++
	id = c.name + "." + strconv.Itoa(c.requests)
	return id, fmt.Sprintf("POST /%s/%d/%d HTTP/1.1\r\nHost: sim\r\nContent-Length: %d\r\n\r\n%s", id, size, ms, body, strings.Repeat("b", body))
}

// send writes text in pieces, with pauses that a limit allows.
func (c *client) send(text string) error {
	for len(text) > 0 {
		n := len(text)
		if c.rng.IntN(3) == 0 {
			n = 1 + c.rng.IntN(n)
		}
		if _, err := io.WriteString(c.nc, text[:n]); err != nil {
			return err
		}
		if text = text[n:]; text != "" {
			time.Sleep(time.Duration(c.rng.IntN(300)) * time.Millisecond)
		}
		if len(text) > 0 && c.rng.IntN(3) > 0 {
			_, err := io.WriteString(c.nc, text)
			return err
		}
	}
	return nil
}

// exchange makes a request and reads its response. It reports whether the connection can go on.
func (c *client) exchange() bool {
	id, text := c.request(c.rng.IntN(3000), c.rng.IntN(60_000), c.rng.IntN(200))
	sent := c.send(text)
	r, err := http.ReadResponse(c.in, nil)
	if err != nil {
		c.mu.Lock()
		executed := c.begun[id]
		c.mu.Unlock()
		if executed {
			c.errorf("%s on %v was executed, and got %v (sending: %v; the limit: %v)", id, c.nc.LocalAddr(), err, sent, c.end().err)
		}
		return false
	}
	if r.StatusCode != http.StatusOK {
		c.errorf("%s got %s", id, r.Status)
		return false
	}
	if n, err := io.Copy(io.Discard, r.Body); err != nil {
		c.errorf("%s on %v was cut after %d bytes of %s: %v (%v)", id, c.nc.LocalAddr(), n, r.Header.Get("Content-Length"), err, c.end().err)
		return false
	}
	at, _ := time.Parse(time.RFC3339Nano, r.Header.Get("At"))
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.drained.IsZero() && at.After(c.drained) && !r.Close {
		c.errorf("%s was answered %v after the drain, and not asked to close", id, at.Sub(c.drained))
	}
	return !r.Close
}

// end returns what has ended the connection.
func (c *client) end() end {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended[c.nc.LocalAddr().String()]
}

// honest makes requests. Often the next one comes at the moment at which KeepAliveTimeout passes.
func (c *client) honest() {
	for range 5 {
		if !c.dial() {
			return
		}
		for range 1 + c.rng.IntN(8) {
			if !c.exchange() {
				break
			}
			pause := time.Duration(c.rng.IntN(1500)) * time.Millisecond
			if c.rng.IntN(2) == 0 {
				pause = limits.KeepAliveTimeout + time.Duration(c.rng.IntN(40)-4)*tick/8
			}
			time.Sleep(pause)
		}
		c.nc.Close()
	}
}

// impatient goes away in the middle.
func (c *client) impatient() {
	if !c.dial() {
		return
	}
	_, text := c.request(1000, 100_000, 100)
	c.send(text[:1+c.rng.IntN(len(text))])
	time.Sleep(time.Duration(c.rng.IntN(400)) * time.Millisecond)
	switch c.rng.IntN(3) {
	case 0:
		c.nc.Reset()
	case 1:
		c.nc.CloseWrite()
		io.Copy(io.Discard, c.nc)
		c.nc.Close()
	default:
		c.nc.Close()
	}
}

// wantEnd checks that the connection is ended by a limit, which began to count at the given time
// and may count for more by so much.
func (c *client) wantEnd(since time.Time, setting string, limit, more time.Duration) {
	time.Sleep(time.Until(since.Add(limit + more + late)))
	synctest.Wait()
	c.mu.Lock()
	drained := !c.drained.IsZero()
	c.mu.Unlock()
	e := c.end()
	switch {
	case drained: // which may have ended it before
	case e.err == nil:
		c.errorf("%v lives on %v after %s of %v", c.nc.LocalAddr(), time.Since(since), setting, limit)
	case e.err.Setting != setting:
		c.errorf("%v was ended by %s, want %s", c.nc.LocalAddr(), e.err.Setting, setting)
	case e.at.Sub(since) < limit || e.at.Sub(since) > limit+more+late:
		c.errorf("%v was ended by %s after %v, want %v to %v", c.nc.LocalAddr(), setting, e.at.Sub(since), limit, limit+more+late)
	}
	c.nc.Close()
}

func (c *client) noHeader() {
	if c.dial() {
		c.wantEnd(time.Now(), "HandshakeTimeout", limits.HandshakeTimeout, 0)
	}
}

func (c *client) halfHeader() {
	if !c.dial() {
		return
	}
	go io.Copy(io.Discard, c.nc) // the 408
	since := time.Now()
	for _, b := range "POST / HT" { // a trickle gains nothing
		io.WriteString(c.nc, string(b))
		time.Sleep(100 * time.Millisecond)
	}
	c.wantEnd(since, "HeaderTimeout", limits.HeaderTimeout, 0)
}

func (c *client) halfBody() {
	if !c.dial() {
		return
	}
	go io.Copy(io.Discard, c.nc)
	_, text := c.request(2000, 10, 0)
	io.WriteString(c.nc, text[:len(text)-1500])
	c.wantEnd(time.Now(), "BodyTimeout", limits.BodyTimeout, 0)
}

func (c *client) idles() {
	if !c.dial() || !c.exchange() {
		return
	}
	go io.Copy(io.Discard, c.nc)
	c.wantEnd(time.Now(), "KeepAliveTimeout", limits.KeepAliveTimeout, 0)
}

// neverReads takes several responses fast, and nothing of the next one.
func (c *client) neverReads() {
	if !c.dial() {
		return
	}
	for range c.rng.IntN(3) {
		_, text := c.request(0, 1_000_000, 0)
		io.WriteString(c.nc, text)
		r, err := http.ReadResponse(c.in, nil)
		if err != nil {
			return // the drain
		}
		if n, err := io.Copy(io.Discard, r.Body); err != nil {
			c.errorf("a download was cut after %d bytes: %v", n, err)
			return
		}
		if r.Close {
			return
		}
	}
	_, text := c.request(0, 1_000_000, 0)
	since := time.Now()
	io.WriteString(c.nc, text)
	const held = buffer + 16<<10 // what the network and a step of a write hold, which pays
	c.wantEnd(since, "WriteRate", limits.WriteRate.Grace, held*time.Second/100_000)
}

func TestHTTP1(t *testing.T) {
	n := *seeds
	if testing.Short() {
		n = min(n, 10)
	}
	for i := range n {
		run(t, *first+uint64(i))
		if t.Failed() {
			return
		}
	}
}
