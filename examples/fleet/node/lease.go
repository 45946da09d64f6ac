package node

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// A Lease is what a node has in the bucket of leases while it is alive. It is all that the
// engine keeps of a node, and the only thing that is renewed.
type Lease struct {
	Owner    string   `json:"owner"`   // the process that holds it, by a random name
	Epoch    uint64   `json:"epoch"`   // the number of the entry that began the lease; 0 in that entry
	Seq      []uint64 `json:"seq"`     // the last batch of each partition; a directory that has not seen it has missed something
	Clients  int      `json:"clients"` // how many the node has
	Address  string   `json:"address"` // for clients
	Ops      string   `json:"ops"`     // for operators, and Prometheus
	Draining bool     `json:"draining,omitempty"`
}

// leaser holds the lease of a node. The number of its first entry is the epoch (see Store).
// Later leases have greater ones, so no clocks of nodes are compared.
type leaser struct {
	node  string
	owner string             // see Lease
	value func() Lease       // what the lease says
	begun func(epoch uint64) // is called when a lease begins
	lost  func()             // is called when the node finds that its lease has ended
	open  func(context.Context) (Store, error)

	renewed atomic.Pointer[time.Time] // nil if there is no lease
	count   atomic.Uint64             // leases that have begun

	mu       sync.Mutex // guards what follows, and is held while the engine is asked
	store    Store
	epoch    uint64
	revision uint64 // of the last entry; 0 if there is no lease
	released bool
}

// held reports whether the node surely has its lease. It has not if the process was stopped
// for too long, even if it has not found that out yet.
func (l *leaser) held() bool {
	at := l.renewed.Load()
	return at != nil && time.Since(*at) < leaseTTL
}

// run renews the lease until ctx is done.
func (l *leaser) run(ctx context.Context) {
	for ctx.Err() == nil {
		wait := leaseEvery
		if err := l.renew(ctx); err != nil {
			wait = leaseEvery / 5
		}
		pause(ctx, wait)
	}
}

// renew renews the lease, or begins another one if it is lost. The entry is replaced only if
// it is the one that this process has written. So of two processes with the same name one
// waits, and a node that was stopped for too long learns that its lease has ended.
func (l *leaser) renew(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released {
		return nil
	}
	now, v := time.Now(), l.value()
	v.Owner = l.owner
	if l.revision == 0 {
		return l.take(ctx, v, now)
	}
	try, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()
	v.Epoch = l.epoch
	text, _ := json.Marshal(v)
	revision, err := l.store.Update(try, l.node, text, l.revision)
	switch {
	case err == nil:
		l.revision = revision
		l.renewed.Store(&now)
	case errors.Is(err, jetstream.ErrKeyRevisionMismatch), errors.Is(err, jetstream.ErrKeyNotFound):
		l.end()
	default: // the engine may have lost the bucket
		if s, err := l.open(ctx); err == nil && s.made != l.store.made {
			l.end()
		}
	}
	return err
}

// end notes that the lease has ended. l.mu is held.
func (l *leaser) end() {
	log.Printf("%s: lease %d has ended", l.node, l.epoch)
	l.revision = 0
	l.renewed.Store(nil)
	l.lost()
}

// take begins a lease. If there is one, it may be this process's own: the engine may have
// made it, and its answer have come too late. The bucket is opened again, because the former
// lease may have ended with it.
func (l *leaser) take(ctx context.Context, v Lease, now time.Time) (err error) {
	if l.store, err = l.open(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, leaseTTL)
	defer cancel()
	text, _ := json.Marshal(v)
	revision, err := l.store.Create(ctx, l.node, text)
	v.Epoch = l.store.Number(revision)
	if errors.Is(err, jetstream.ErrKeyExists) {
		e, err2 := l.store.Get(ctx, l.node)
		if err2 != nil || json.Unmarshal(e.Value(), &v) != nil || v.Owner != l.owner {
			return err
		}
		revision, now, err = e.Revision(), now.Add(-leaseTTL), nil // it is held for sure when it was renewed
		v.Epoch = cmp.Or(v.Epoch, l.store.Number(revision))
	}
	if err != nil {
		return err
	}
	l.epoch, l.revision = v.Epoch, revision
	log.Printf("%s: has lease %d", l.node, l.epoch)
	l.count.Add(1)
	l.begun(l.epoch)
	l.renewed.Store(&now)
	return nil
}

// release ends the lease in good order.
func (l *leaser) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.released = true
	if l.revision != 0 {
		if err := l.store.Delete(ctx, l.node, jetstream.LastRevision(l.revision)); err != nil {
			log.Printf("%s: the lease ends by itself: %v", l.node, err)
		}
	}
}
