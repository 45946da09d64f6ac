package model

import (
	"slices"
	"testing"
)

// modelled are the flags that the model has. It begins after Track, and keeps no active heartbeat.
const modelled = Live | Ending | Asking | Unanswered | Exact

var beyondModel = []string{"track", "beats-kept"}

func (s modelState) flags() (f Flags) {
	for _, of := range []struct {
		is   bool
		flag Flags
	}{
		{s.live, Live}, {s.ending, Ending}, {s.asking, Asking},
		{s.pinged, Unanswered}, {s.exact, Exact},
	} {
		if of.is {
			f |= of.flag
		}
	}
	return f
}

// taken are the transitions that the model has made.
type taken map[string]bool

// madeBy returns the name of the transition that a step has made, or "" if there is none.
func madeBy(s *step, was, is modelState) string {
	for _, t := range Transitions {
		t.Need, t.Not, t.Set, t.Clear = t.Need&modelled, t.Not&modelled, t.Set&modelled, t.Clear&modelled
		if slices.Contains(s.may, t.Name) && t.Allows(was.flags(), is.flags()) {
			return t.Name
		}
	}
	return ""
}

// check looks for transitions that the model has not made.
func (n taken) check(t *testing.T) {
	for _, tr := range Transitions {
		if has := (tr.Set|tr.Clear)&modelled != 0; has && !slices.Contains(beyondModel, tr.Name) != n[tr.Name] {
			t.Errorf("transition %s: made by the model: %v", tr.Name, n[tr.Name])
		}
	}
}

// TestTransitions tries all sequences of transitions. A connection is live once, and has ended
// when it is over.
func TestTransitions(t *testing.T) {
	const wasLive = aMiss // misses are left out
	seen := make([]bool, 2*wasLive)
	states := 0
	for todo := []Flags{0}; len(todo) > 0; {
		was := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, tr := range Transitions {
			if was&(tr.Need|tr.Not)&^wasLive != tr.Need {
				continue
			}
			is := was&^(tr.Clear&^Misses) | tr.Set
			if was&Live != 0 && is&Live == 0 {
				is |= wasLive
			}
			if is&Live != 0 && is&(wasLive|Over) != 0 || is&wasLive != 0 && is&Over == 0 {
				t.Fatalf("%s: from %b to %b", tr.Name, was, is)
			}
			if !seen[is] {
				seen[is] = true
				states++
				todo = append(todo, is)
			}
		}
	}
	t.Logf("%d states", states)
}
