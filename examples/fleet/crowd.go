package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/idlewheel/idlewheel/examples/fleet/directory"
	"github.com/idlewheel/idlewheel/examples/fleet/wire"
)

// An order says what a crowd, a process with thousands of clients, does.
type order struct {
	From, To int           // its clients
	Clients  int           // of all crowds
	Nodes    []string      // addresses
	Beat     time.Duration // how often a client beats
	Ramp     float64       // clients that connect a second
	Spread   time.Duration // within which a client comes back that was cut off
	Sample   int           // one in so many tells of each arrival
}

// A question is what a crowd is asked, and a report is its answer.
type question struct {
	Rate  float64 // letters a second from now on
	Where bool    // the report says where each client is
	Moves bool    // and which have moved since it was asked for that
	Cut   int     // so many clients lose their connections, and come back somewhere else
}

type report struct {
	Arrival   *arrival          `json:",omitempty"` // if it is not an answer
	Connected int               // clients
	Places    []directory.Place // of each client; the node is empty if it is not connected
	Moves     []Move
	Sent      int // letters
	Received  int // of those, the ones that have come
	Waiting   int // of those, the ones that are not acknowledged
	Repeated  int // times that one was sent again
}

// An arrival is a client that has been welcomed somewhere.
type arrival struct {
	Client string
	Place  directory.Place
	At     time.Time
}

type crowd struct {
	order   order
	clients []*client
	rate    atomic.Int64 // letters in a thousand seconds

	mu       sync.Mutex // guards what follows
	out      *json.Encoder
	sent     uint64
	waiting  map[uint64]*letter
	received map[uint64]bool
	repeated int
	moves    []Move
}

// A letter is sent again until it is acknowledged.
type letter struct {
	from *client
	to   string
	at   time.Time
}

const repeatAfter = time.Second

func runCrowd(in *json.Decoder, out *json.Encoder) error {
	c := &crowd{out: out, waiting: map[uint64]*letter{}, received: map[uint64]bool{}}
	if err := in.Decode(&c.order); err != nil {
		return err
	}
	for i := c.order.From; i < c.order.To; i++ {
		c.clients = append(c.clients, &client{crowd: c, index: i, name: clientName(i)})
	}
	go func() {
		for i, cl := range c.clients {
			go cl.live(c.order.Nodes[cl.index%len(c.order.Nodes)])
			if i%50 == 49 {
				time.Sleep(time.Duration(50 / c.order.Ramp * float64(time.Second)))
			}
		}
	}()
	go c.pace()
	for {
		var q question
		if in.Decode(&q) != nil {
			return nil // the parent is gone, or has enough
		}
		c.rate.Store(int64(q.Rate * 1000))
		for _, i := range rand.Perm(len(c.clients))[:min(q.Cut, len(c.clients))] {
			c.clients[i].cut()
		}
		c.tell(q)
	}
}

// pace has all clients beat, and write letters, at an even rate.
func (c *crowd) pace() {
	begun, beats, letters, repeats := time.Now(), 0, 0.0, time.Now()
	for last := begun; ; time.Sleep(10 * time.Millisecond) {
		now := time.Now()
		for due := int(float64(len(c.clients)) * float64(now.Sub(begun)) / float64(c.order.Beat)); beats < due; beats++ {
			c.clients[beats%len(c.clients)].send(wire.Frame{Kind: wire.Beat})
		}
		for letters += float64(c.rate.Load()) / 1000 * now.Sub(last).Seconds(); letters >= 1; letters-- {
			c.write()
		}
		last = now
		if now.Sub(repeats) > repeatAfter/10 {
			repeats = now
			c.repeat(now)
		}
	}
}

// write has one client write a letter to another one.
func (c *crowd) write() {
	l := &letter{c.clients[rand.IntN(len(c.clients))], clientName(rand.IntN(c.order.Clients)), time.Now()}
	c.mu.Lock()
	c.sent++
	id := uint64(c.order.From)<<32 + c.sent
	c.waiting[id] = l
	c.mu.Unlock()
	l.send(id)
}

// repeat sends again what was not acknowledged for too long.
func (c *crowd) repeat(now time.Time) {
	again := map[uint64]*letter{}
	c.mu.Lock()
	for id, l := range c.waiting {
		if now.Sub(l.at) > repeatAfter {
			l.at = now
			again[id] = l
			c.repeated++
		}
	}
	c.mu.Unlock()
	for id, l := range again {
		l.send(id)
	}
}

func (l *letter) send(id uint64) {
	text := fmt.Appendf(nil, "letter %d from %s", id, l.from.name)
	l.from.send(wire.Frame{Kind: wire.Message, Body: wire.Letter{ID: id, Name: l.to, Text: text}.Append(nil)})
}

// tell answers a question.
func (c *crowd) tell(q question) {
	var r report
	for _, cl := range c.clients {
		p := cl.place()
		if p.Node != "" {
			r.Connected++
		}
		if q.Where {
			r.Places = append(r.Places, p)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r.Sent, r.Received, r.Waiting, r.Repeated = int(c.sent), len(c.received), len(c.waiting), c.repeated
	if q.Moves {
		r.Moves, c.moves = c.moves, nil
	}
	c.out.Encode(r)
}

// noteArrival tells the parent at once, if the client is one of the sample.
func (c *crowd) noteArrival(cl *client) {
	if cl.index%c.order.Sample != 0 {
		return
	}
	a := &arrival{cl.name, cl.place(), time.Now()}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out.Encode(report{Arrival: a})
}

func (c *crowd) noteMove(m Move) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.moves = append(c.moves, m)
}

func (c *crowd) noteReceived(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.received[id] = true
}

func (c *crowd) noteAcked(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, id)
}
