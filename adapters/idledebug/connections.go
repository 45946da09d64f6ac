package idledebug

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// sorts are the orders of connections, by the name that a request gives.
var sorts = map[string]idle.Sort{"idle": idle.MostIdle, "age": idle.Oldest, "end": idle.NextToEnd, "misses": idle.MostMisses, "unsent": idle.MostUnsent}

const (
	defaultSize = 20
	maxSize     = 1000
	maxPage     = 100_000_000
)

// list is the answer to api/connections.
type list struct {
	Tracker string    `json:"tracker"`
	Sort    string    `json:"sort"`
	Page    int       `json:"page"` // from 1
	Size    int       `json:"size"`
	Pages   int       `json:"pages"`
	Total   int       `json:"total"`
	At      time.Time `json:"at"` // of the census, whose order this is
	Rows    []row     `json:"rows"`
}

// row is the JSON of a connection. Those that have ended since the census are left out. Those
// that follow in the list take their places, unless they are on a later page that somebody
// has seen.
type row struct {
	ID      string  `json:"id,omitempty"` // for api/end
	Label   string  `json:"label"`
	Phase   string  `json:"phase"`
	Age     seconds `json:"age"`
	Idle    seconds `json:"idle"`
	IdleIn  seconds `json:"idle_in"`
	IdleOut seconds `json:"idle_out"`
	Busy    bool    `json:"busy"`
	Misses  int     `json:"misses"`
	Unsent  int     `json:"unsent"` // bytes
	Next    string  `json:"next"`
	NextIn  seconds `json:"next_in"`
	NextBy  string  `json:"next_by"`
	EndsIn  seconds `json:"ends_in"`
	EndsBy  string  `json:"ends_by"` // none if no limit ends it
}

// connections answers a page of the list of connections.
func (h *Handler) connections(w http.ResponseWriter, r *http.Request) error {
	name, l, err := h.look(r)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	size, err := whole(q, "size", defaultSize, 1, maxSize)
	if err != nil {
		return err
	}
	number, err := whole(q, "page", 1, 1, maxPage)
	if err != nil {
		return err
	}
	by := "idle"
	if q.Has("sort") {
		by = q.Get("sort")
	}
	sort, ok := sorts[by]
	if !ok {
		return invalid("sort", by, `"idle", "age", "end", "misses" or "unsent"`)
	}
	v := view{sort: sort, filtered: q.Has("phase"), phase: q.Get("phase")}
	if v.filtered && l.phase(v.phase) == nil {
		if _, err := l.newest(r.Context()); err != nil {
			return err
		}
		if _, err := l.named(v.phase); err != nil {
			return err
		}
	}
	c, err := l.list(r.Context(), v)
	if c == nil {
		return err
	}
	answered := list{Tracker: name, Sort: by, Page: number, Size: size, Total: c.Len(), Pages: (c.Len() + size - 1) / size, At: c.At, Rows: []row{}}
	if number <= answered.Pages {
		ctx, cancel := context.WithTimeout(r.Context(), patience)
		defer cancel()
		p, err := c.pages.fetch(ctx, c.Census, number, size, &l.listed)
		if err != nil {
			if ctx.Err() != nil {
				err = &refusal{http.StatusServiceUnavailable, fmt.Sprintf("the connections could not be looked at within %v; perhaps an event loop is blocked", patience)}
			}
			return err
		}
		for i := range p.infos {
			answered.Rows = append(answered.Rows, rowOf(l.tracker, &p.infos[i], p.ids.of(i)))
		}
	}
	return answer(w, answered)
}

func rowOf(t *idle.Tracker, i *idle.Info, id string) row {
	name := func(r idle.Reason) string { return cmp.Or(t.Setting(i.Phase, r), r.String()) }
	return row{
		ID: id, Label: i.Label, Phase: i.Phase, Age: inSeconds(i.Age), Idle: inSeconds(min(i.IdleIn, i.IdleOut)), IdleIn: inSeconds(i.IdleIn), IdleOut: inSeconds(i.IdleOut),
		Busy: i.Busy, Misses: i.Misses, Unsent: i.Unsent, Next: i.Next, NextIn: inSeconds(i.NextIn), NextBy: name(i.NextBy), EndsIn: inSeconds(i.EndsIn), EndsBy: name(i.EndsBy),
	}
}
