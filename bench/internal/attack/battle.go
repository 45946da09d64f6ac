package attack

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"sync"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/child"
	"github.com/idlewheel/idlewheel/bench/internal/program"
	"github.com/idlewheel/idlewheel/bench/internal/progress"
	"github.com/idlewheel/idlewheel/bench/internal/server"
	"github.com/idlewheel/idlewheel/bench/internal/slow"
	"github.com/idlewheel/idlewheel/bench/internal/spread"
)

// A battle is an attack on a variant of a server.
type battle struct {
	Config
	server    *victim
	quick     *clients
	uploads   *clients
	downloads *clients
}

// Run attacks every variant of a server, with ample descriptors and with scarce
// ones: as many as there are attackers, who come first.
func Run(ctx context.Context, cfg Config, stderr io.Writer) (*Report, error) {
	if runtime.GOOS != "linux" {
		return nil, fmt.Errorf("this is %s, but it runs on Linux only", runtime.GOOS)
	}
	rep := newReport(cfg)
	p := progress.New(stderr, "")
	defer p.Clear()
	for _, descriptors := range []string{"ample", "scarce"} {
		for _, variant := range server.Variants(cfg.Server) {
			name := fmt.Sprintf("%s, %s descriptors", variant, descriptors)
			p.Say("attack: %s, %v", name, cfg.Duration)
			o, err := fight(ctx, cfg, variant, descriptors, stderr)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			rep.Runs = append(rep.Runs, o)
		}
	}
	rep.judge()
	return rep, nil
}

// fight attacks a variant.
func fight(ctx context.Context, cfg Config, variant, descriptors string, stderr io.Writer) (*outcome, error) {
	b := &battle{Config: cfg}
	o := order{Kind: cfg.Server, Variant: variant, Limits: cfg.Limits}
	if descriptors == "scarce" {
		o.Clients = cfg.Attackers
	}
	var err error
	if b.server, err = start(o, child.Options{Stderr: stderr}); err != nil {
		return nil, err
	}
	defer b.server.Kill()
	b.quick = b.clients(quick, cfg.Patience)
	b.quick.every = cfg.Every
	b.uploads = b.clients(cfg.upload, cfg.Patience+cfg.slowness())
	b.downloads = b.clients(cfg.download, cfg.Patience+cfg.slowness())
	b.downloads.receive = slowBuffer
	out, err := b.fight(ctx)
	if err != nil {
		return nil, err
	}
	out.Variant, out.Descriptors = variant, descriptors
	return out, nil
}

func (b *battle) clients(request func(int) request, patience time.Duration) *clients {
	return &clients{Config: b.Config, address: b.server.Address, patience: patience, request: request, perConn: 10, latency: spread.New()}
}

// calm is how long things may take that should take no time.
const calm = 200 * time.Millisecond

// fight fights it out.
func (b *battle) fight(ctx context.Context) (*outcome, error) {
	begun := time.Now()
	attack, peace := context.WithCancel(ctx)
	defer peace()
	attackers := make(chan []slow.Result, 1)
	go func() { attackers <- b.send(attack) }()

	if !program.Sleep(attack, b.ramp()+calm) {
		return nil, ctx.Err()
	}
	asking, enough := context.WithDeadline(attack, begun.Add(b.Duration))
	defer enough()
	var honest sync.WaitGroup
	for i := range b.Honest {
		honest.Go(func() {
			if program.Sleep(asking, b.Every*time.Duration(i)/time.Duration(b.Honest)) {
				b.quick.run(asking, nil)
			}
		})
	}
	for i := range b.slow() {
		honest.Go(func() { []*clients{b.uploads, b.downloads}[i%2].run(asking, nil) })
	}

	program.Sleep(asking, calm)
	full, err := b.server.look()
	if err != nil {
		return nil, err
	}
	<-asking.Done()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	end, err := b.server.look()
	if err != nil {
		return nil, err
	}
	peace()
	honest.Wait() // for the answers to what has been asked
	return b.outcome(<-attackers, full, end), nil
}

// send sends the attackers, evenly over the ramp. The cases are equally frequent.
func (b *battle) send(ctx context.Context) []slow.Result {
	cases := b.cases()
	all := make([]slow.Case, b.Attackers)
	for i := range all {
		all[i] = cases[i%len(cases)]
	}
	return slow.Run(ctx, b.target(b.server.Address), slow.Options{GiveUp: 2 * b.Duration, Pause: b.pause(), Ramp: b.ramp()}, all)
}
