package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/idlewheel/idlewheel/examples/fleet/directory"
	"github.com/idlewheel/idlewheel/examples/fleet/node"
)

// oracle compares what directories say with what clients know.
type oracle struct {
	f *fleet

	mu     sync.Mutex // guards what follows
	latest map[string]arrival
	lag    time.Duration // the longest from an arrival until it was answered
	seen   int           // arrivals that were answered
	missed int           // arrivals that were not, for lagMost
}

const lagMost = 10 * time.Second

func newOracle(f *fleet) *oracle { return &oracle{f: f, latest: map[string]arrival{}} }

// follow asks where a client is until the answer is where it has just arrived, or it has gone
// on.
func (o *oracle) follow(a arrival) {
	o.mu.Lock()
	if o.latest[a.Client].Place.Session < a.Place.Session {
		o.latest[a.Client] = a
	}
	o.mu.Unlock()
	for ; time.Since(a.At) < lagMost; time.Sleep(20 * time.Millisecond) {
		places, err := o.f.nc.Who(context.Background(), a.Client)
		o.mu.Lock()
		superseded, found := o.latest[a.Client].Place.Session > a.Place.Session, err == nil && places[a.Client] == a.Place
		if found {
			o.seen++
			o.lag = max(o.lag, time.Since(a.At))
		}
		o.mu.Unlock()
		if superseded || found {
			return
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.missed++
	o.lag = max(o.lag, lagMost)
}

// add adds what was found about arrivals.
func (o *oracle) add(r *result) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r.PresenceLag, r.ArrivalsAsked, r.ArrivalsMissed = o.lag.Seconds(), o.seen, o.missed
}

// misplaced returns how many clients are not exactly where they are said to be, by the worst
// directory, and an example. Each node is asked for what it has, too, so a client that two
// nodes have is found even if it does not know.
func (o *oracle) misplaced(ctx context.Context) (worst int, example string, err error) {
	r, err := o.f.report(question{Where: true})
	if err != nil {
		return 0, "", err
	}
	states, err := o.f.nc.States(ctx, o.f.processCount(), time.Second)
	if err != nil || len(states) == 0 {
		return len(r.Places), fmt.Sprint("no node answers: ", err), nil
	}
	have, kept := 0, map[int]bool{}
	for _, s := range states {
		have += s.Clients
		for _, partition := range s.Keeps {
			kept[partition] = true
		}
		if len(s.Keeps) == 0 {
			continue
		}
		wrong, of, err := o.compare(ctx, s, r.Places)
		if err != nil {
			return len(r.Places), err.Error(), nil
		}
		if wrong > worst {
			worst, example = wrong, of
		}
	}
	if missing := max(1, o.f.partitions) - len(kept); missing > 0 {
		return len(r.Places), fmt.Sprintf("%d partitions have no directory", missing), nil
	}
	if extra := have - r.Connected; extra > worst {
		worst, example = extra, fmt.Sprintf("nodes have %d clients, and %d are connected", have, r.Connected)
	}
	return worst, example, nil
}

// compare compares the directories of a process with where clients are.
func (o *oracle) compare(ctx context.Context, of node.State, truth []directory.Place) (wrong int, example string, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	i := 0
	for part := range slices.Chunk(truth, 2000) {
		var names []string
		for k := range part {
			names = append(names, clientName(i+k))
		}
		places, err := o.f.nc.WhoOf(ctx, of.Node, names)
		if err != nil {
			return 0, "", err
		}
		for k, p := range part {
			if kept := slices.Contains(of.Keeps, directory.Partition(names[k], of.Partitions)); kept && places[names[k]] != p {
				wrong++
				example = fmt.Sprintf("%s is at %+v, and %s says at %+v", names[k], p, of.Node, places[names[k]])
			}
		}
		i += len(part)
	}
	return wrong, example, nil
}

// settle waits until nothing is misplaced, for so long at most.
func (o *oracle) settle(ctx context.Context, most time.Duration) (worst int, example string, err error) {
	for deadline := time.Now().Add(most); ; time.Sleep(200 * time.Millisecond) {
		worst, example, err = o.misplaced(ctx)
		if err != nil || worst == 0 || time.Now().After(deadline) || ctx.Err() != nil {
			return worst, example, err
		}
	}
}
