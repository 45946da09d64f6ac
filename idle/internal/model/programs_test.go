package model

import (
	"slices"
	"strings"
	"testing"
)

var wordNames = []string{
	"in.at", "in.paid", "out.at", "out.paid", "lastIn", "lastOut", "used", "unread", "beat", "pinged", "born", "began", "told",
	"placed", "state", "phase",
}

// TestPrograms looks for mistakes in Programs: names that don't exist, and parts that nothing uses.
func TestPrograms(t *testing.T) {
	g := parse(Programs)
	used := map[string]bool{}
	for _, words := range g.programs {
		for _, w := range words {
			name, _, _ := strings.Cut(w, "(")
			used[name] = true
		}
	}
	for name := range g.programs {
		if !isOperation(name) {
			if !used[name] {
				t.Errorf("nothing uses %s", name)
			}
			continue
		}
		for _, tokens := range g.automaton(name).next {
			for token := range tokens {
				change, ok := strings.CutPrefix(token, ">state.")
				known := ok && slices.ContainsFunc(Transitions, func(t Transition) bool { return t.Name == change })
				if !known && (token == ">state" || !slices.Contains(wordNames, token[1:])) {
					t.Errorf("%s: there is no %s", name, token)
				}
			}
		}
	}
}

// TestCheck checks short traces of one goroutine, in which the words are 0 at first.
func TestCheck(t *testing.T) {
	load := func(operation, word string, is uint64) Step {
		return Step{Operation: operation, By: operation, Word: word, Was: is, Is: is}
	}
	store := func(operation, word string, was, is uint64) Step {
		return Step{Operation: operation, By: operation, Word: word, Wrote: true, Was: was, Is: is}
	}
	const pause, await, touch = "Conn.PauseRead", "Conn.AwaitRead", "Conn.Touch"
	ended := store("Conn.Stop", "state", uint64(Live), uint64(Over))
	for _, c := range []struct {
		what  string
		steps []Step
		want  string // in the error, or "" if the steps are allowed
	}{
		{"nothing", nil, ""},
		{"touches", []Step{load(touch, "lastIn", 5), load(touch, "lastIn", 5)}, ""},
		{"a touch and the end", []Step{load(touch, "lastIn", 5), load("Conn.Stop", "state", uint64(Live)), ended}, ""},
		{"a word that changes in between", []Step{load(touch, "lastIn", 5), load(touch, "lastIn", 6)}, "not the one that was stored last"},
		{"a pause", []Step{load(pause, "phase", 1), load(pause, "in.at", 3), store(pause, "in.at", 3, 4), load(touch, "lastIn", 5)}, ""},
		{"an await that is cut", []Step{load(await, "in.at", 3), load(await, "phase", 1)}, "has not ended"},
		{"an await that is cut by a touch", []Step{load(await, "in.at", 3), load(await, "phase", 1), load(touch, "lastIn", 5)}, "is not over"},
		{"a pause that stores first", []Step{load(pause, "phase", 1), store(pause, "in.at", 3, 4)}, "no such step; it has <in.at"},
		{"two ends", []Step{
			load("Conn.Stop", "state", uint64(Live)), ended, load("Conn.Stop", "state", uint64(Over)),
			store("Conn.Stop", "state", uint64(Over), uint64(Over|Ending)),
		}, "no transition allows it"},
		{"a touch that ends", []Step{load(touch, "lastIn", 5), store(touch, "state", uint64(Live), uint64(Over))}, "no transition allows it"},
		{"a look", []Step{load("", "state", uint64(Live)), load("", "in.paid", 7)}, ""},
		{"a store by nobody", []Step{store("", "in.paid", 7, 8)}, "part of no operation"},
	} {
		err := NewChecker().Check(c.steps)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}
