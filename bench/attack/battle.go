package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

// A battle is an attack on a variant of a server.
type battle struct {
	cfg       config
	server    *child
	attackers []*attacker
	quick     *clients
	uploads   *clients
	downloads *clients

	mu     sync.Mutex
	byPort map[int]*attacker
}

// attackAll attacks every variant, with ample descriptors and with scarce ones.
func attackAll(ctx context.Context, cfg config, stderr io.Writer) (*report, error) {
	rep := newReport(cfg)
	for _, scarce := range []bool{false, true} {
		for _, variant := range variants() {
			name := fmt.Sprintf("%s, %s descriptors", variant, supply(scarce))
			stop := announce(stderr, name, cfg.duration)
			o, err := fight(ctx, cfg, variant, scarce, stderr)
			stop()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			rep.add(o)
		}
	}
	rep.judge()
	return rep, nil
}

func supply(scarce bool) string {
	if scarce {
		return "scarce"
	}
	return "ample"
}

// fight attacks a variant.
func fight(ctx context.Context, cfg config, variant string, scarce bool, stderr io.Writer) (*outcome, error) {
	clients := 0
	if scarce {
		clients = cfg.attackers // who come first
	}
	server, err := startServer(cfg, variant, clients, stderr)
	if err != nil {
		return nil, err
	}
	defer server.kill()
	b := &battle{
		cfg: cfg, server: server, byPort: map[int]*attacker{},
		quick:     newClients(server.address, cfg),
		uploads:   newClients(server.address, cfg),
		downloads: newClients(server.address, cfg),
	}
	b.downloads.control = slowBuffer
	go server.hear(b.closed)
	o, err := b.fight(ctx)
	if err != nil {
		return nil, err
	}
	o.Variant, o.Descriptors = variant, supply(scarce)
	return o, nil
}

// fight fights it out.
func (b *battle) fight(ctx context.Context) (*outcome, error) {
	begun := time.Now()
	attack, peace := context.WithCancel(ctx)
	var fighting sync.WaitGroup
	defer fighting.Wait()
	defer b.hangUp()
	defer peace()
	b.send(attack, &fighting)

	if !pause(ctx, b.cfg.ramp()+calm) {
		return nil, ctx.Err()
	}
	if err := b.arrived(); err != nil {
		return nil, err
	}
	asking, enough := context.WithDeadline(ctx, begun.Add(b.cfg.duration))
	defer enough()
	var honest sync.WaitGroup
	b.serveHonest(asking, &honest)

	pause(asking, calm)
	full, err := b.server.look()
	if err != nil {
		return nil, err
	}
	<-asking.Done()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	at := time.Now()
	for _, a := range b.attackers {
		a.finish()
	}
	atEnd, err := b.server.look()
	if err != nil {
		return nil, err
	}
	honest.Wait() // for the answers to what has been asked
	return b.outcome(at, full, atEnd), nil
}

// calm is how long things may take that take no time.
const calm = 200 * time.Millisecond

// send sends the attackers, evenly over the ramp.
func (b *battle) send(ctx context.Context, fighting *sync.WaitGroup) {
	all := kindsFor(b.cfg)
	for i := range b.cfg.attackers {
		a := newAttacker(ctx, all[i%len(all)], b.cfg)
		b.attackers = append(b.attackers, a)
		delay := b.cfg.ramp() * time.Duration(i) / time.Duration(b.cfg.attackers)
		fighting.Go(func() {
			if a.rest(delay) && a.connect(b.server.address, func(port int) { b.register(port, a) }) == nil {
				a.attack()
			}
		})
	}
}

func (b *battle) register(port int, a *attacker) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.byPort[port] = a
}

// arrived returns an error if an attacker could not come.
func (b *battle) arrived() error {
	for _, a := range b.attackers {
		a.mu.Lock()
		err := a.err
		a.mu.Unlock()
		if err != nil {
			return fmt.Errorf("an attacker could not connect: %w", err)
		}
	}
	return nil
}

// closed takes the server's word that it has closed a connection.
func (b *battle) closed(c closure) {
	b.mu.Lock()
	a := b.byPort[c.Port]
	b.mu.Unlock()
	if a != nil {
		a.cut(time.Unix(0, c.At))
	}
}

// serveHonest lets the honest clients make requests until ctx is done.
func (b *battle) serveHonest(ctx context.Context, honest *sync.WaitGroup) {
	for i := range b.cfg.honest {
		delay := b.cfg.every * time.Duration(i) / time.Duration(b.cfg.honest)
		honest.Go(func() {
			if pause(ctx, delay) {
				(&client{clients: b.quick}).run(ctx, b.cfg.every)
			}
		})
	}
	for i := range b.cfg.slow() {
		honest.Go(func() {
			if i%2 == 0 {
				(&client{clients: b.uploads}).upload(ctx, b.cfg.limits)
			} else {
				(&client{clients: b.downloads}).download(ctx, b.cfg.limits)
			}
		})
	}
}

// hangUp closes the attackers' connections that are left.
func (b *battle) hangUp() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range b.byPort {
		a.wire.SetLinger(0) // leave nothing in the kernel for the next variant
		a.wire.Close()
	}
}
