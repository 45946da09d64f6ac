package idleprom

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

const (
	others       = "(others)"  // as in Stats.ByPhase
	unnamed      = "(unnamed)" // as Prometheus takes an empty label for none
	longestLabel = 128
)

// names are the values of a label that come from the user. They are bounded in number and
// length: the first ones keep their names, and the rest are called "(others)".
type names struct {
	most int

	mu    sync.Mutex
	known map[string]bool // labels
}

// keys returns the keys of m.
func keys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// admit gives labels to names, in this order.
func (n *names) admit(names []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.known == nil {
		n.known = map[string]bool{}
	}
	for _, name := range names {
		label := clean(name)
		if len(n.known) >= n.most && !n.known[label] {
			label = others
		}
		n.known[label] = true
	}
}

// label returns the label of a name.
func (n *names) label(name string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if label := clean(name); n.known[label] {
		return label
	}
	return others
}

// all returns all labels.
func (n *names) all() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return keys(n.known)
}

// clean returns name as the value of a label: not empty, not long, and in valid UTF-8.
// Several names may become the same, and are then added up.
func clean(name string) string {
	if name == "" {
		return unnamed
	}
	label := strings.ToValidUTF8(name, "\uFFFD")
	end := min(len(label), longestLabel)
	for end < len(label) && !utf8.RuneStart(label[end]) {
		end--
	}
	return label[:end]
}
