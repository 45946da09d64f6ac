package node

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// A bucket keeps the last entry of each key until its TTL has passed.
type bucket struct {
	made     uint64
	revision uint64
	last     map[string]entry
	log      []entry // of all; watchers follow it
	wakes    map[chan struct{}]bool
	mu       sync.Mutex // guards wakes
}

type entry struct {
	key      string
	value    []byte
	revision uint64
	op       jetstream.KeyValueOp
	at       time.Time
}

func newBucket() *bucket {
	return &bucket{made: uint64(time.Now().UnixMicro()), last: map[string]entry{}, wakes: map[chan struct{}]bool{}}
}

func (e entry) Bucket() string                  { return "leases" }
func (e entry) Key() string                     { return e.key }
func (e entry) Value() []byte                   { return e.value }
func (e entry) Revision() uint64                { return e.revision }
func (e entry) Created() time.Time              { return e.at }
func (e entry) Delta() uint64                   { return 0 }
func (e entry) Operation() jetstream.KeyValueOp { return e.op }

// put writes an entry. The broker's mutex is held, as in all that follows.
func (b *bucket) put(key string, value []byte, op jetstream.KeyValueOp) uint64 {
	b.revision++
	e := entry{key, value, b.revision, op, time.Now()}
	b.last[key], b.log = e, append(b.log, e)
	b.wakeAll()
	return b.revision
}

func (b *bucket) wakeAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.wakes {
		notify(c)
	}
}

// expire ends the leases whose TTL has passed.
func (b *bucket) expire() {
	for key, e := range b.last {
		if e.op == jetstream.KeyValuePut && time.Since(e.at) > leaseTTL {
			b.put(key, nil, jetstream.KeyValuePurge)
		}
	}
}

// A boundBucket is a bucket as a process sees it. The methods that nodes do not use are missing.
type boundBucket struct {
	jetstream.KeyValue
	*bucket
	l *link
}

func (b *boundBucket) Bucket() string { return "leases" }

// gone reports whether the store was lost since the process has opened the bucket.
func (b *boundBucket) gone() bool { return b.l.b.bucket != b.bucket }

func (b *boundBucket) write(ctx context.Context, key string, value []byte, op jetstream.KeyValueOp, allowed func(entry) error) (revision uint64, err error) {
	err = b.l.request(ctx, len(value)+100, func() error {
		if b.gone() {
			return jetstream.ErrNoStreamResponse
		}
		b.expire()
		if err := allowed(b.last[key]); err != nil {
			return err
		}
		revision = b.put(key, value, op)
		return nil
	})
	return revision, err
}

func (b *boundBucket) Create(ctx context.Context, key string, value []byte, _ ...jetstream.KVCreateOpt) (uint64, error) {
	return b.write(ctx, key, value, jetstream.KeyValuePut, func(last entry) error {
		if last.op == jetstream.KeyValuePut && last.revision > 0 {
			return jetstream.ErrKeyExists
		}
		return nil
	})
}

func (b *boundBucket) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	return b.write(ctx, key, value, jetstream.KeyValuePut, func(last entry) error {
		if last.revision != revision {
			return jetstream.ErrKeyRevisionMismatch
		}
		return nil
	})
}

// Delete is only called with the last revision.
func (b *boundBucket) Delete(ctx context.Context, key string, _ ...jetstream.KVDeleteOpt) error {
	_, err := b.write(ctx, key, nil, jetstream.KeyValueDelete, func(entry) error { return nil })
	return err
}

func (b *boundBucket) Get(ctx context.Context, key string) (e jetstream.KeyValueEntry, err error) {
	err = b.l.request(ctx, 300, func() error {
		last := b.last[key]
		if b.gone() || last.revision == 0 || last.op != jetstream.KeyValuePut {
			return jetstream.ErrKeyNotFound
		}
		e = last
		return nil
	})
	return e, err
}

func (b *boundBucket) WatchAll(ctx context.Context, _ ...jetstream.WatchOpt) (jetstream.KeyWatcher, error) {
	ctx, cancel := context.WithCancel(ctx)
	w := &keyWatcher{b: b, updates: make(chan jetstream.KeyValueEntry, 64), cancel: cancel, wake: make(chan struct{}, 1)}
	b.bucket.mu.Lock()
	b.wakes[w.wake] = true
	b.bucket.mu.Unlock()
	go w.run(ctx)
	return w, nil
}

// A keyWatcher follows a bucket as an ordered consumer does: what it has missed comes later.
type keyWatcher struct {
	b       *boundBucket
	updates chan jetstream.KeyValueEntry
	cancel  func()
	wake    chan struct{}
}

func (w *keyWatcher) Updates() <-chan jetstream.KeyValueEntry { return w.updates }
func (w *keyWatcher) Error() <-chan error                     { return nil }

func (w *keyWatcher) Stop() error {
	w.cancel()
	return nil
}

func (w *keyWatcher) run(ctx context.Context) {
	defer func() {
		w.b.bucket.mu.Lock()
		delete(w.b.wakes, w.wake)
		w.b.bucket.mu.Unlock()
	}()
	send := func(e jetstream.KeyValueEntry) {
		select {
		case w.updates <- e:
		case <-ctx.Done():
		}
	}
	l := w.b.l
	for next, first := 0, true; ctx.Err() == nil; {
		l.b.mu.Lock()
		trip := 2 * l.b.trip()
		l.b.mu.Unlock()
		pause(ctx, trip) // what is written meanwhile comes with it
		l.halt()
		var now []entry
		l.b.mu.Lock()
		through := !l.cut && !w.b.gone()
		for ; through && next < len(w.b.log); next++ {
			if e := w.b.log[next]; w.b.last[e.key].revision == e.revision { // there is no history
				now = append(now, e)
				t := l.b.second()
				t.leaseMsgs++
				t.leaseBytes += len(e.value) + 170
			}
		}
		early := l.b.random.IntN(4) == 0
		l.b.mu.Unlock()
		for i, e := range now {
			if first && early && i == len(now)-1 { // an entry that is renewed just now may come late
				first = false
				send(nil)
			}
			send(e)
		}
		if through && first {
			first = false
			send(nil) // that was all there was
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
		}
	}
}
