package deadlines

import (
	"testing"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
)

// An expectation is the next event of a connection, and when it ends if nothing moves.
type expectation struct {
	what Event
	at   int64
	ends int64 // 0 if it does not
}

func (want expectation) check(t *testing.T, name string, s Snapshot, of ...Terms) {
	t.Helper()
	d, end := Next(&s, of), s.Ends(of)
	if d.What != want.what || d.At != want.at || end.At != want.ends || end.Terms != nil && end.What != End {
		t.Errorf("%s: %v at %d, and it ends at %d; want %v at %d, %d", name, d.What, d.At, end.At, want.what, want.at, want.ends)
	}
}

// TestAge has a connection in tick 1000 that was tracked in tick 900, so an age of n has passed in
// tick 901+n. A grace counts from the end of the tick in which the owner was told.
func TestAge(t *testing.T) {
	for name, test := range map[string]struct {
		told, age, grace int64
		expectation
	}{
		"no grace":                             {900, 150, 0, expectation{End, 1051, 1051}},
		"no grace, but told":                   {990, 150, 0, expectation{End, 1051, 1051}},
		"never told":                           {900, 150, 20, expectation{Tell, 1051, 1072}},
		"never told, and the age has passed":   {900, 50, 20, expectation{Tell, 951, 1021}},
		"told when it passed":                  {951, 50, 60, expectation{End, 1012, 1012}},
		"told later":                           {990, 50, 20, expectation{End, 1011, 1011}},
		"told later, and the grace has passed": {960, 50, 20, expectation{End, 981, 981}},
		"told before it passed":                {950, 50, 20, expectation{Tell, 951, 1021}},
		"told before it passes":                {990, 150, 20, expectation{Tell, 1051, 1072}}, // by a drain, or a shorter MaxAge
	} {
		s := Snapshot{Moment: clock.Moment{Now: 1000}, Born: 900, Told: test.told}
		test.check(t, name, s, Terms{Counts: OfLife, Ticks: test.age, Grace: test.grace})
	}
}

// TestDrain has the same connection in a drain with a CloseDelay of 20 ticks.
func TestDrain(t *testing.T) {
	terms := Terms{Limit: 9, Grace: 20}
	idle, age := Terms{Counts: OfUse, Ticks: 200}, Terms{Counts: OfLife, Ticks: 120, Grace: 30}
	for name, test := range map[string]struct {
		told, turn, force int64
		again             int64 // not 0: it is busy
		of                []Terms
		expectation
	}{
		"its turn comes":                         {900, 1010, 0, 0, nil, expectation{Tell, 1010, 1031}},
		"its turn was missed":                    {900, 950, 0, 0, nil, expectation{Tell, 950, 1021}},
		"its turn comes, although busy":          {900, 1010, 0, 1, nil, expectation{Tell, 1010, 0}},
		"told for another reason before":         {990, 1010, 0, 0, nil, expectation{Tell, 1010, 1031}},
		"told":                                   {990, 990, 0, 0, nil, expectation{End, 1011, 1011}},
		"told late":                              {995, 990, 0, 0, nil, expectation{End, 1016, 1016}},
		"told, and the delay has passed":         {950, 950, 0, 0, nil, expectation{End, 971, 971}},
		"told, and busy":                         {950, 950, 0, 1, nil, expectation{End, 971, 0}},
		"told, and it was busy":                  {950, 950, 0, 1005, nil, expectation{End, 1005, 0}},
		"told, busy, and the delay lasts":        {990, 990, 0, 1, nil, expectation{End, 1011, 0}},
		"told, busy, and forced":                 {950, 950, 1003, 1005, nil, expectation{End, 1003, 1003}},
		"told, busy, and forced later":           {950, 950, 1040, 1005, nil, expectation{End, 1005, 1040}},
		"forced before the delay has passed":     {990, 990, 1005, 0, nil, expectation{End, 1005, 1005}},
		"forced before its turn":                 {900, 1010, 1005, 0, nil, expectation{End, 1005, 1005}},
		"forced at its turn":                     {900, 1010, 1010, 0, nil, expectation{End, 1010, 1010}},
		"forced long ago, and no turn was told":  {900, 950, 960, 1, nil, expectation{End, 960, 960}},
		"a limit passes first":                   {900, 1150, 0, 0, []Terms{idle}, expectation{End, 1101, 1101}},
		"the drain comes first":                  {900, 1010, 0, 0, []Terms{idle}, expectation{Tell, 1010, 1031}},
		"a limit of one that is busy":            {950, 950, 0, 1005, []Terms{idle}, expectation{End, 1005, 1101}},
		"a limit has passed of one that is busy": {950, 950, 0, 1005, []Terms{{Counts: OfUse, Ticks: 80}}, expectation{End, 981, 981}},
		"MaxAge tells, and the turn has been":    {1000, 990, 0, 0, []Terms{age}, expectation{End, 1021, 1021}},
		"MaxAge tells before the turn":           {900, 1030, 0, 0, []Terms{age}, expectation{Tell, 1021, 1051}},
		"the turn begins the grace again":        {1021, 1030, 0, 1, []Terms{age}, expectation{Tell, 1030, 1061}},
	} {
		s := Snapshot{Moment: clock.Moment{Now: 1000}, Born: 900, In: Flow{Used: 900, Last: 900}, Told: test.told, Busy: test.again > 0}
		s.Drain = Drain{Terms: &terms, Turn: test.turn, Again: test.again, Force: test.force}
		test.check(t, name, s, test.of...)
	}
	s := Snapshot{Moment: clock.Moment{Now: 1000}, Born: 900, Told: 990}
	expectation{End, 1011, 1011}.check(t, "the drain is over", s, Terms{Counts: OfLife, Ticks: 50, Grace: 20})
}
