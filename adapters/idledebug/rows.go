package idledebug

import (
	"context"
	"slices"
	"sync"

	"github.com/idlewheel/idlewheel/idle"
)

// maxPageRows is how many rows of a census are held, on all its pages.
const maxPageRows = 20_000

// listPages are the pages of the list of a census that somebody has looked at last. Each
// is described once, so all who look at it see the same rows with the same ids.
type listPages struct {
	once  sync.Once
	turn  chan struct{} // holds a token while nobody fetches
	pages []*listPage   // the oldest first
	rows  int           // on these
}

// A listPage is a page of the list of a census. Pages of one size are disjoint.
type listPage struct {
	number, size int // the number counts from 1
	from, upto   int // the part of the list that it covers
	infos        []idle.Info
	ids          rowIDs
}

// fetch returns a page. If several ask, one fetches and the others wait.
func (p *listPages) fetch(ctx context.Context, c *idle.Census, number, size int, to *listed) (*listPage, error) {
	p.once.Do(func() {
		p.turn = make(chan struct{}, 1)
		p.turn <- struct{}{}
	})
	select {
	case <-p.turn:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { p.turn <- struct{}{} }()
	if number > 1 { // the first page takes what it needs, so that a drain does not empty it
		if _, err := p.one(ctx, c, 1, size, to); err != nil {
			return nil, err
		}
	}
	return p.one(ctx, c, number, size, to)
}

// one returns a page. The token must be held.
func (p *listPages) one(ctx context.Context, c *idle.Census, number, size int, to *listed) (*listPage, error) {
	at := listPage{number: number, size: size, from: (number - 1) * size, upto: c.Len()}
	for _, known := range p.pages {
		switch {
		case known.size != size:
		case known.number == number:
			return known, nil
		case known.number < number:
			at.from = max(at.from, known.upto)
		default:
			at.upto = min(at.upto, known.from)
		}
	}
	if err := at.describe(ctx, c); err != nil {
		return nil, err
	}
	at.ids = to.add(at.infos)
	p.pages = append(p.pages, &at)
	p.rows += size
	for p.rows > maxPageRows && len(p.pages) > 2 {
		p.rows -= p.pages[0].size
		p.pages = slices.Delete(p.pages, 0, 1)
	}
	return &at, nil
}

const (
	maxSteps = 100  // the most steps in which a page is described
	maxStep  = 1000 // connections
)

// describe describes connections from p.from on until the page is full, and sets p.upto to
// where it stopped. Connections that have ended since the census are left out, which may be
// many in a row.
func (p *listPage) describe(ctx context.Context, c *idle.Census) error {
	end := max(p.upto, p.from)
	p.upto = p.from
	step := p.size
	for range maxSteps {
		missing := p.size - len(p.infos)
		if missing == 0 || p.upto == end {
			break
		}
		n := min(max(step, missing), end-p.upto)
		infos, err := c.Page(ctx, p.upto, n)
		if err != nil {
			return err
		}
		if len(infos) > missing { // the page would end within this step, but it is not known where
			step = n / 2
			continue
		}
		p.infos = append(p.infos, infos...)
		p.upto += n
		if step = 0; len(infos) == 0 {
			step = min(2*n, maxStep)
		}
	}
	return nil
}
