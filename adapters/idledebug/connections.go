package idledebug

import (
	"net/http"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/census"
	"github.com/idlewheel/idlewheel/idle"
)

// orders are the orders of the list, by the name that a request gives.
var orders = map[string]census.Order{"idle": census.MostIdle, "age": census.Oldest, "end": census.NextToEnd, "unsent": census.MostUnsent}

const defaultSize = 20

// list is the answer to api/connections.
type list struct {
	Tracker string    `json:"tracker"`
	Sort    string    `json:"sort"`
	Page    int       `json:"page"` // from 1
	Size    int       `json:"size"`
	Pages   int       `json:"pages"`
	Listed  int       `json:"listed"` // on all pages
	Live    int       `json:"live"`   // in the census
	At      time.Time `json:"at"`     // of the census, from which the list is
	Rows    []row     `json:"rows"`
}

// row is the JSON of a connection, which may have ended since the census.
type row struct {
	Label  string  `json:"label"`
	Phase  string  `json:"phase"`
	Age    seconds `json:"age"`
	Idle   seconds `json:"idle"`
	Busy   bool    `json:"busy"`
	Unsent int     `json:"unsent"` // bytes
	EndsIn seconds `json:"ends_in"`
	EndsBy string  `json:"ends_by"` // empty if nothing ends it
}

// connections answers a page of the list of connections.
func (h *Handler) connections(w http.ResponseWriter, r *http.Request) error {
	name, l, err := h.look(r)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	size, err := whole(q, "size", defaultSize, 1, maxListed)
	if err != nil {
		return err
	}
	page, err := whole(q, "page", 1, 1, maxListed)
	if err != nil {
		return err
	}
	by := "idle"
	if q.Has("sort") {
		by = q.Get("sort")
	}
	order, ok := orders[by]
	if !ok {
		return invalid("sort", by, `"idle", "age", "end" or "unsent"`)
	}
	c, err := l.census.Get(r.Context())
	if c == nil {
		return err
	}
	all := c.Lists[order]
	answered := list{Tracker: name, Sort: by, Page: page, Size: size, Pages: (len(all) + size - 1) / size, Listed: len(all), Live: c.Live, At: c.At, Rows: []row{}}
	for _, conn := range all[min((page-1)*size, len(all)):min(page*size, len(all))] {
		answered.Rows = append(answered.Rows, row{
			conn.Label, conn.Phase, inSeconds(conn.Age), inSeconds(conn.Idle), conn.Busy, conn.Unsent,
			inSeconds(conn.EndsIn), nameOf(l.tracker, conn.Phase, conn.EndsBy),
		})
	}
	return answer(w, answered)
}

// nameOf returns the name of the setting by which connections of a phase end for r. If r is no limit, it
// returns the name of the reason. It is empty if r is 0.
func nameOf(t *idle.Tracker, phase string, r idle.Reason) string {
	if setting := t.Setting(phase, r); r == 0 || setting != "" {
		return setting
	}
	return r.String()
}
