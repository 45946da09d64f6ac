package node

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// A broker is an engine in memory, in virtual time. It delays messages, loses some, and can be
// away. What waits for a process is bounded as in NATS: what does not fit is lost.
type broker struct {
	weight      int           // clients that a client of the simulation stands for
	cost        time.Duration // of a client that arrives or ends, in each process that is told
	pendingMost int           // bytes that wait for a process
	linkRate    float64       // bytes a second that a process gets at most; 0 without a limit

	mu     sync.Mutex // guards what follows
	random *rand.Rand
	delay  time.Duration // of a message, one way, half as much at least
	loss   float64
	subs   map[string][]subscription
	links  map[string]*link
	bucket *bucket
	count  map[int64]*traffic // by second
	slow   int                // messages lost because a process was too slow
}

// traffic is what has passed the broker in a second, both ways.
type traffic struct{ leaseMsgs, leaseBytes, msgs, bytes int }

type subscription struct {
	link   *link
	handle nats.MsgHandler
}

// A link is the connection of a process. It implements engine.
type link struct {
	b    *broker
	name string
	p    *peer
	ctx  context.Context

	// b.mu guards what follows.
	cut       bool // nothing gets through
	connected bool // as far as the process knows
	stopped   time.Time
	queue     []delivery
	pending   int // bytes in it
	lastDue   time.Time
	wake      chan struct{}
}

type delivery struct {
	due    time.Time
	size   int
	cost   time.Duration
	msg    *nats.Msg
	handle nats.MsgHandler
}

const overhead = 60 // bytes of a message without its clients, and of its protocol

func newBroker(seed uint64) *broker {
	b := &broker{weight: 1, pendingMost: 64 << 20, random: rand.New(rand.NewPCG(seed, 1)), delay: 2 * time.Millisecond,
		subs: map[string][]subscription{}, links: map[string]*link{}, count: map[int64]*traffic{}}
	b.bucket = newBucket()
	return b
}

// connect connects a process until ctx is done.
func (b *broker) connect(ctx context.Context, p *peer) {
	l := &link{b: b, name: p.name, p: p, ctx: ctx, connected: true, wake: make(chan struct{}, 1)}
	p.engine = l
	b.mu.Lock()
	b.links[p.name] = l
	b.mu.Unlock()
	go l.deliver()
	context.AfterFunc(ctx, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for subject, subs := range b.subs {
			b.subs[subject] = slices.DeleteFunc(subs, func(s subscription) bool { return s.link == l })
		}
		if b.links[p.name] == l {
			delete(b.links, p.name)
		}
	})
}

// trip returns how long a message is under way. b.mu is held.
func (b *broker) trip() time.Duration { return b.delay/2 + rand.N(b.delay/2+1) }

// sweep ends leases in time until ctx is done.
func (b *broker) sweep(ctx context.Context) {
	for ctx.Err() == nil {
		b.mu.Lock()
		b.bucket.expire()
		b.mu.Unlock()
		pause(ctx, batchEvery)
	}
}

// second returns the traffic of this second. b.mu is held.
func (b *broker) second() *traffic {
	now := time.Now().Unix()
	if b.count[now] == nil {
		b.count[now] = &traffic{}
	}
	return b.count[now]
}

func (l *link) at(subject string) string { return subject }

func (l *link) IsConnected() bool {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	return l.connected
}

func (l *link) Subscribe(subject string, handle nats.MsgHandler) (*nats.Subscription, error) {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	l.b.subs[subject] = append(l.b.subs[subject], subscription{l, handle})
	return nil, nil
}

var errAway = errors.New("the engine is away")

func (l *link) Publish(subject string, data []byte) error {
	l.halt()
	b := l.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if !l.connected {
		return errAway
	} else if l.cut || b.random.Float64() < b.loss {
		return nil
	}
	size, clients := len(data)+overhead, 0
	if strings.HasPrefix(subject, subjectPresence) {
		clients = strings.Count(string(data), `"c":`) * b.weight
		size += (len(data) - overhead) * (b.weight - 1)
	}
	b.add(1, size)
	dot := strings.LastIndexByte(subject, '.')
	for _, subs := range [][]subscription{b.subs[subject], b.subs[subject[:dot]+".*"]} {
		for _, s := range subs {
			if s.link.cut || b.random.Float64() < b.loss {
				continue
			}
			b.add(1, size)
			s.link.enqueue(delivery{size: size, cost: time.Duration(clients) * b.cost, handle: s.handle, msg: &nats.Msg{Subject: subject, Data: data}})
		}
	}
	return nil
}

// add counts messages. b.mu is held.
func (b *broker) add(msgs, bytes int) {
	t := b.second()
	t.msgs += msgs
	t.bytes += bytes
}

// enqueue has a message delivered, in order, when it has come through. b.mu is held.
func (l *link) enqueue(d delivery) {
	if l.pending+d.size > l.b.pendingMost {
		l.b.slow++
		return
	}
	d.due = time.Now().Add(2 * l.b.trip())
	if d.due.Before(l.lastDue) {
		d.due = l.lastDue
	}
	if l.b.linkRate > 0 {
		d.due = d.due.Add(time.Duration(float64(d.size) / l.b.linkRate * float64(time.Second)))
	}
	l.lastDue = d.due
	l.pending += d.size
	l.queue = append(l.queue, d)
	notify(l.wake)
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// deliver calls the handlers one by one, as a process of one core does.
func (l *link) deliver() {
	for {
		l.b.mu.Lock()
		var now []delivery
		now, l.queue = l.queue, nil
		l.b.mu.Unlock()
		if len(now) == 0 {
			select {
			case <-l.wake:
			case <-l.ctx.Done():
				return
			}
		}
		for _, d := range now {
			time.Sleep(time.Until(d.due))
			l.halt()
			if l.ctx.Err() != nil {
				return
			}
			time.Sleep(d.cost)
			d.handle(d.msg)
			l.b.mu.Lock()
			l.pending -= d.size
			l.b.mu.Unlock()
		}
	}
}

// halt waits while the process is stopped.
func (l *link) halt() {
	l.b.mu.Lock()
	until := l.stopped
	l.b.mu.Unlock()
	time.Sleep(time.Until(until))
}

// sever cuts a process off, or ends that. The process notices at once if its connection breaks,
// and otherwise when its pings have not come back.
func (l *link) sever(cut bool, noticed time.Duration) {
	b := l.b
	b.mu.Lock()
	l.cut = cut
	if cut {
		l.queue, l.pending = nil, 0
	}
	b.mu.Unlock()
	if !cut {
		noticed = time.Duration(200+rand.IntN(300)) * time.Millisecond
	}
	go func() {
		time.Sleep(noticed)
		b.mu.Lock()
		changed := l.cut == cut && l.connected == cut && l.ctx.Err() == nil
		if changed {
			l.connected = !cut
		}
		b.mu.Unlock()
		switch {
		case !changed:
		case cut:
			l.p.doubt()
		default:
			l.p.reconnected()
			l.b.bucket.wakeAll()
		}
	}()
}

// outage has the broker be away for a while. It may lose its store meanwhile.
func (b *broker) outage(d time.Duration, wiped bool) {
	b.each(func(l *link) { l.sever(true, 0) })
	time.Sleep(d)
	if wiped {
		b.mu.Lock()
		b.bucket = newBucket()
		b.mu.Unlock()
	}
	b.each(func(l *link) { l.sever(false, 0) })
}

// each calls f for each process.
func (b *broker) each(f func(*link)) {
	b.mu.Lock()
	var all []*link
	for _, l := range b.links {
		all = append(all, l)
	}
	b.mu.Unlock()
	for _, l := range all {
		f(l)
	}
}

// request has do happen at the broker, and waits for the answer. Either way may be lost.
func (l *link) request(ctx context.Context, bytes int, do func() error) (err error) {
	l.halt()
	if !l.IsConnected() {
		return errAway
	}
	through := func() bool {
		l.b.mu.Lock()
		trip := l.b.trip()
		l.b.mu.Unlock()
		pause(ctx, trip)
		l.b.mu.Lock()
		defer l.b.mu.Unlock()
		t := l.b.second()
		t.leaseMsgs++
		t.leaseBytes += bytes
		return !l.cut && l.b.random.Float64() >= l.b.loss && ctx.Err() == nil && l.ctx.Err() == nil
	}
	if !through() {
		<-ctx.Done()
		return ctx.Err()
	}
	l.b.mu.Lock()
	err = do()
	l.b.mu.Unlock()
	if !through() {
		<-ctx.Done()
		return ctx.Err()
	}
	l.halt()
	return err
}

// leases implements engine.
func (l *link) leases(ctx context.Context) (s Store, err error) {
	ctx, cancel := context.WithTimeout(ctx, 3*engineTimeout)
	defer cancel()
	err = l.request(ctx, 200, func() error {
		s = Store{&boundBucket{bucket: l.b.bucket, l: l}, l.b.bucket.made}
		return nil
	})
	return s, err
}
