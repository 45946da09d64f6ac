package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/idlewheel/idlewheel/examples/fleet/node"
)

// A result is what -json prints. What was not measured is null.
type result struct {
	Clients        int      `json:"clients"`
	Nodes          int      `json:"nodes"`
	EngineMsgs     float64  `json:"engine_msgs_per_s"` // between nodes and engine, while clients only beat
	Lost           int      `json:"lost"`              // letters
	Misplaced      int      `json:"misplaced"`         // clients in two places, in none, or in another one
	PresenceLag    float64  `json:"presence_lag_s"`    // until a query knows of an arrival, at most
	Reload         *float64 `json:"reload_s"`          // until all nodes have taken new limits
	DrainError     *float64 `json:"drain_rate_error_pct"`
	ReconnectPeak  *float64 `json:"reconnect_peak_ratio"`
	EngineBytes    float64  `json:"engine_bytes_per_s"`
	Letters        int      `json:"letters"`
	LettersAgain   int      `json:"letters_repeated"`
	ArrivalsAsked  int      `json:"arrivals_followed"`
	ArrivalsMissed int      `json:"arrivals_missed"`
	Example        string   `json:"example,omitempty"` // of a misplaced client
}

// lettersPerSecond is what all clients together write.
const lettersPerSecond = 200

// run has the clients connect, plays the scenes, and compares.
func (f *fleet) run(ctx context.Context) (r result, err error) {
	begun := time.Now()
	r.Clients, r.Nodes = f.clients, f.nodes
	if err := f.populate(); err != nil {
		return r, err
	}
	f.out("%d clients connect", f.clients)
	if err := f.connected(ctx); err != nil {
		return r, err
	}
	if _, example, err := f.oracle.settle(ctx, 10*time.Second); err != nil {
		return r, err
	} else if example != "" {
		f.out("not all are known after 10 s: %s", example)
	}
	quiet := 30 * time.Second
	if f.duration > 0 {
		quiet = min(quiet, f.duration/4)
	}
	f.out("all are connected and known after %.1f s; they only beat for %v, every %v", time.Since(begun).Seconds(), quiet, f.beat)
	if r.EngineMsgs, r.EngineBytes, err = f.traffic(ctx, quiet); err != nil {
		return r, err
	}
	f.out("nodes and engine have exchanged %.1f messages a second, %.0f bytes", r.EngineMsgs, r.EngineBytes)
	if r.Reload, err = f.reload(ctx); err != nil {
		return r, err
	}
	f.rate = lettersPerSecond
	if _, err := f.report(question{}); err != nil {
		return r, err
	}
	f.out("they write %d letters a second to each other", lettersPerSecond)
	if f.kill {
		if err := f.killScene(ctx); err != nil {
			return r, err
		}
	}
	if f.wipe {
		if err := f.wipeScene(ctx); err != nil {
			return r, err
		}
	}
	if f.kill && f.drain && f.spread > 0 {
		if err := f.spreadScene(ctx); err != nil {
			return r, err
		}
	}
	if f.drain {
		if r.DrainError, r.ReconnectPeak, err = f.drainScene(ctx, 1); err != nil {
			return r, err
		}
	}
	if f.duration > 0 {
		wait(ctx, f.duration-time.Since(begun))
	} else {
		<-ctx.Done()
	}
	return f.finish(r)
}

// finish has the clients fall silent, and waits until all letters and places are settled.
func (f *fleet) finish(r result) (result, error) {
	ctx := context.Background() // the context of run may be done
	f.rate = 0
	sum, err := f.report(question{})
	for deadline := time.Now().Add(patience); err == nil && sum.Waiting > 0 && time.Now().Before(deadline); sum, err = f.report(question{}) {
		time.Sleep(100 * time.Millisecond)
	}
	if err != nil {
		return r, err
	}
	r.Letters, r.LettersAgain, r.Lost = sum.Sent, sum.Repeated, max(sum.Waiting, sum.Sent-sum.Received)
	r.Misplaced, r.Example, err = f.oracle.settle(ctx, patience)
	f.oracle.add(&r)
	return r, err
}

// connected waits until all clients are.
func (f *fleet) connected(ctx context.Context) error {
	for deadline := time.Now().Add(patience); ; wait(ctx, 200*time.Millisecond) {
		r, err := f.report(question{})
		switch {
		case err != nil || ctx.Err() != nil || r.Connected == f.clients:
			return err
		case time.Now().After(deadline):
			return fmt.Errorf("%d of %d clients are connected after %v", r.Connected, f.clients, patience)
		}
	}
}

// traffic returns what passes between nodes and engine a second.
func (f *fleet) traffic(ctx context.Context, d time.Duration) (msgs, bytes float64, err error) {
	count := func() (msgs, bytes uint64) {
		var states []node.State
		states, err = f.nc.States(ctx, f.processCount(), time.Second)
		for _, s := range states {
			msgs += s.Engine.InMsgs + s.Engine.OutMsgs
			bytes += s.Engine.InBytes + s.Engine.OutBytes
		}
		return msgs, bytes
	}
	begun := time.Now()
	msgs0, bytes0 := count()
	wait(ctx, d)
	msgs1, bytes1 := count()
	took := time.Since(begun).Seconds()
	return float64(msgs1-msgs0) / took, float64(bytes1-bytes0) / took, err
}

// reload changes a limit of the whole fleet, and changes it back.
func (f *fleet) reload(ctx context.Context) (*float64, error) {
	begun := time.Now()
	verdicts, err := changeLimits(ctx, f.nc, f.processCount(), "write=11s")
	took := time.Since(begun).Seconds()
	if err != nil {
		return nil, err
	} else if len(verdicts) < f.nodes {
		return nil, fmt.Errorf("%d of %d nodes have taken new limits after %.1f s", len(verdicts), f.nodes, took)
	}
	f.out("all nodes have taken new limits after %.0f ms", took*1000)
	_, err = changeLimits(ctx, f.nc, f.processCount(), "write=10s")
	return &took, err
}

// killScene kills the last node. The supervisor starts it again.
func (f *fleet) killScene(ctx context.Context) error {
	f.out("%s is killed", nodeName(f.nodes-1))
	begun := time.Now()
	if err := f.signal(f.nodes-1, syscall.SIGKILL); err != nil {
		return err
	}
	wait(ctx, time.Second)
	if err := f.connected(ctx); err != nil {
		return err
	}
	return f.settled(ctx, begun, "a node was killed", "its clients are connected and known elsewhere")
}

// wipeScene restarts the engine without all that it has stored.
func (f *fleet) wipeScene(ctx context.Context) error {
	f.out("the engine loses its store")
	begun := time.Now()
	port := f.server.Addr().(*net.TCPAddr).Port
	f.server.Shutdown()
	f.server.WaitForShutdown()
	err := os.RemoveAll(filepath.Join(f.dir, "jetstream"))
	if err == nil {
		f.server, err = startEngine(f.dir, port)
	}
	if err != nil {
		return err
	}
	return f.settled(ctx, begun, "the engine lost its store", "all clients are known again")
}

// settled waits until nothing is misplaced after what has happened at the given time.
func (f *fleet) settled(ctx context.Context, begun time.Time, happened, later string) error {
	worst, example, err := f.oracle.settle(ctx, patience)
	if err != nil || ctx.Err() != nil {
		return err
	}
	took := time.Since(begun).Seconds()
	if worst > 0 {
		return fmt.Errorf("%.1f s after %s %d clients are misplaced: %s", took, happened, worst, example)
	}
	f.out("%.1f s later %s", took, later)
	return nil
}

// spreadScene waits until all nodes have about as many clients.
func (f *fleet) spreadScene(ctx context.Context) error {
	begun := time.Now()
	for most := f.spread + 30*time.Second; ctx.Err() == nil; wait(ctx, 500*time.Millisecond) {
		states, err := f.nc.States(ctx, f.processCount(), time.Second)
		if err != nil {
			return err
		}
		states = slices.DeleteFunc(states, keepsDirectoriesOnly)
		fewest, moving := math.MaxInt, false
		for _, s := range states {
			fewest, moving = min(fewest, s.Clients), moving || s.Spreads
		}
		took := time.Since(begun)
		if len(states) == f.nodes && !moving && fewest >= f.clients/f.nodes*8/10 {
			f.out("%.1f s later every node has its share of the clients again", took.Seconds())
			return nil
		} else if took > most {
			return fmt.Errorf("%v after a node came back it has %d of %d clients", took.Round(time.Second), fewest, f.clients)
		}
	}
	return ctx.Err()
}

// runNeighbor runs a second fleet on the same engine until ctx is done, if it is wanted, and
// fails if that loses anything.
func (f *fleet) runNeighbor(ctx context.Context) error {
	if !f.neighbor {
		return nil
	}
	o := options{fleet: f.fleet + "-neighbor", engine: f.engine, nodes: 2, clients: 200, beat: f.beat, over: f.over,
		address: addressOf(f.address, 2*f.nodes), out: func(string, ...any) {}}
	n, err := startFleet(ctx, o)
	if err != nil {
		return err
	}
	defer n.close()
	r, err := n.write(ctx)
	if err == nil && (r.Lost > 0 || r.Misplaced > 0) {
		err = fmt.Errorf("the neighbor has lost %d letters, and misplaced %d clients: %s", r.Lost, r.Misplaced, r.Example)
	}
	if err == nil {
		f.out("the neighbor on the same engine has lost nothing of %d letters", r.Letters)
	}
	return err
}

// write has clients write letters until ctx is done, and nothing else.
func (f *fleet) write(ctx context.Context) (r result, err error) {
	if err := f.populate(); err != nil {
		return r, err
	}
	if err := f.connected(ctx); err != nil {
		return r, err
	}
	f.rate = lettersPerSecond
	if _, err := f.report(question{}); err != nil {
		return r, err
	}
	<-ctx.Done()
	return f.finish(r)
}

// drainScene drains a node, and returns how even that was.
func (f *fleet) drainScene(ctx context.Context, i int) (rateError, peak *float64, err error) {
	if _, err := f.report(question{Moves: true}); err != nil {
		return nil, nil, err
	}
	i = min(i, f.nodes-1)
	f.out("%s is drained over %v", nodeName(i), f.over)
	if _, err := f.nc.Drain(ctx, nodeName(i), f.over); err != nil {
		return nil, nil, err
	}
	wait(ctx, f.over+3*time.Second)
	r, err := f.report(question{Moves: true})
	if err != nil || ctx.Err() != nil && len(r.Moves) == 0 {
		return nil, nil, err
	} else if len(r.Moves) == 0 {
		return nil, nil, fmt.Errorf("%s was drained, and no client has moved", nodeName(i))
	}
	e, p := evenness(r.Moves, f.over, f.nodes-1)
	f.out("%d clients have moved; in any second at most %.1f %% more or less than at an even rate, and at any node at most %.2f times its share", len(r.Moves), e, p)
	return &e, &p, nil
}

// evenness returns by how much the clients that were told to move in a second of a drain
// differ from an even rate, in percent, and how many have arrived at any node in any second,
// as a ratio of its share of that rate.
func evenness(moves []Move, over time.Duration, others int) (errorPct, peak float64) {
	rate := float64(len(moves)) / over.Seconds()
	told := make([]time.Time, 0, len(moves))
	there := map[string][]time.Time{}
	for _, m := range moves {
		told = append(told, m.Told)
		there[m.Node] = append(there[m.Node], m.There)
	}
	slices.SortFunc(told, time.Time.Compare)
	for s := range int(over / time.Second) {
		from := told[0].Add(time.Duration(s) * time.Second)
		errorPct = max(errorPct, 100*math.Abs(float64(between(told, from))/rate-1))
	}
	for _, at := range there {
		slices.SortFunc(at, time.Time.Compare)
		for _, from := range at {
			peak = max(peak, float64(between(at, from))/(rate/float64(others)))
		}
	}
	return errorPct, peak
}

// between returns how many of the times are within a second from the given one.
func between(sorted []time.Time, from time.Time) int {
	a, _ := slices.BinarySearchFunc(sorted, from, time.Time.Compare)
	b, _ := slices.BinarySearchFunc(sorted, from.Add(time.Second), time.Time.Compare)
	return b - a
}

// wait waits for d, or until ctx is done.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// print prints r, as an object or as lines.
func (r result) print(asJSON bool) {
	e := json.NewEncoder(os.Stdout)
	if !asJSON {
		e.SetIndent("", "  ")
	}
	e.Encode(r)
}
