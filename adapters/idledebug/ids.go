package idledebug

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// An issuer makes the ids of a look. They have a random prefix, so that none is valid for
// another tracker, or after a restart.
type issuer struct{ prefix string }

func newIssuer() issuer { return issuer{rand.Text()[:12] + "-"} }

// id returns the id with a number.
func (i issuer) id(n uint64) string { return i.prefix + strconv.FormatUint(n, 10) }

// number returns the number of an id, or 0 if that comes from elsewhere.
func (i issuer) number(id string) uint64 {
	digits, ok := strings.CutPrefix(id, i.prefix)
	n, err := strconv.ParseUint(digits, 10, 64)
	if !ok || err != nil {
		return 0
	}
	return n
}

// The id of a row is valid for rowsLast, unless maxListedRows more rows were listed since.
const (
	rowsLast      = time.Minute
	maxListedRows = 100_000
)

// listed holds the connections that were listed last, so that they can be ended by hand.
type listed struct {
	on      bool // somebody may end connections
	ids     issuer
	mu      sync.Mutex
	next    uint64
	rows    int // of batches
	batches []batch
}

// A batch is what was listed at once. The first of infos has the number first, and the others
// follow. Pages share infos, and needn't know which are taken.
type batch struct {
	first uint64
	infos []idle.Info
	taken map[uint64]bool // by number
}

// rowIDs are the ids of consecutive rows.
type rowIDs struct {
	issuer
	first uint64 // 0 if they have none
}

// of returns the id of a row.
func (r rowIDs) of(row int) string {
	if r.first == 0 {
		return ""
	}
	return r.id(r.first + uint64(row))
}

// add returns the ids of infos.
func (l *listed) add(infos []idle.Info) rowIDs {
	if !l.on || len(infos) == 0 {
		return rowIDs{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	first := l.next + 1
	l.next += uint64(len(infos))
	l.batches = append(l.batches, batch{first, infos, map[uint64]bool{}})
	l.rows += len(infos)
	for l.rows > maxListedRows {
		l.drop(0)
	}
	time.AfterFunc(rowsLast, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if i := slices.IndexFunc(l.batches, func(b batch) bool { return b.first == first }); i >= 0 {
			l.drop(i)
		}
	})
	return rowIDs{l.ids, first}
}

// drop drops a batch. l.mu must be held.
func (l *listed) drop(i int) {
	l.rows -= len(l.batches[i].infos)
	l.batches = slices.Delete(l.batches, i, i+1)
}

// take returns the connection with an id, once.
func (l *listed) take(id string) (*idle.Info, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.ids.number(id)
	for _, b := range l.batches {
		if n >= b.first && n-b.first < uint64(len(b.infos)) {
			if b.taken[n] {
				return nil, &refusal{http.StatusGone, fmt.Sprintf("id is %q; the connection was ended from here before", id)}
			}
			b.taken[n] = true
			return &b.infos[n-b.first], nil
		}
	}
	return nil, &refusal{http.StatusGone, fmt.Sprintf("id is %q; this tracker has listed it more than %v ago or %d rows ago, or never, so look again", id, rowsLast, maxListedRows)}
}
