package idledebug

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

const (
	maxPages   = 64          // of a census
	maxBatches = 64          // of listed connections
	rowsLast   = time.Minute // the id of a row is valid so long
)

// pages are the pages of a census that somebody has looked at. Each is fetched once.
type pages struct {
	once  sync.Once
	turn  chan struct{} // holds a token while nobody fetches
	pages map[place]page
}

type place struct{ from, n int }

// A page is a part of the list of a census.
type page struct {
	infos []idle.Info
	first uint64 // the id of the first row; the others follow
	at    time.Time
}

// fetch returns a page. If several ask, one fetches and the others wait.
func (p *pages) fetch(ctx context.Context, c *idle.Census, at place, ids *listed) (page, error) {
	p.once.Do(func() {
		p.turn, p.pages = make(chan struct{}, 1), map[place]page{}
		p.turn <- struct{}{}
	})
	select {
	case <-p.turn:
	case <-ctx.Done():
		return page{}, ctx.Err()
	}
	defer func() { p.turn <- struct{}{} }()
	if got, ok := p.pages[at]; ok {
		return got, nil
	}
	infos, err := describe(ctx, c, at)
	if err != nil {
		return page{}, err
	}
	got := page{infos, ids.add(infos), time.Now()}
	if len(p.pages) < maxPages {
		p.pages[at] = got
	}
	return got, nil
}

// Where many have ended since the census, a page is filled up with those that follow in
// the list: so many at a time, and so often.
const (
	more      = 1000
	moreOften = 5
)

// describe returns the connections of a page.
func describe(ctx context.Context, c *idle.Census, at place) ([]idle.Info, error) {
	infos, err := c.Page(ctx, at.from, at.n)
	next := at.from + at.n
	for range moreOften {
		if err != nil || len(infos) >= at.n || next >= c.Len() {
			break
		}
		var following []idle.Info
		following, err = c.Page(ctx, next, more)
		infos = append(infos, following[:min(len(following), at.n-len(infos))]...)
		next += more
	}
	return infos, err
}

// listed holds the connections that were listed last, so that they can be ended by hand.
type listed struct {
	on      bool // somebody may end connections
	mu      sync.Mutex
	next    uint64
	batches []batch
}

// A batch is what was listed at once.
type batch struct {
	first uint64
	infos []idle.Info
}

// add returns the id of the first of infos. The others follow.
func (l *listed) add(infos []idle.Info) (first uint64) {
	if !l.on || len(infos) == 0 {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	first = l.next + 1
	l.next += uint64(len(infos))
	l.batches = append(l.batches, batch{first, infos})
	if len(l.batches) > maxBatches {
		l.batches = slices.Delete(l.batches, 0, 1)
	}
	time.AfterFunc(rowsLast, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.batches = slices.DeleteFunc(l.batches, func(b batch) bool { return b.first == first })
	})
	return first
}

// find returns the connection with an id, or nil if it was listed too long ago.
func (l *listed) find(id uint64) *idle.Info {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.batches {
		if id >= b.first && id-b.first < uint64(len(b.infos)) {
			return &b.infos[id-b.first]
		}
	}
	return nil
}
