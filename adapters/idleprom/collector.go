package idleprom

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/idlewheel/idlewheel/adapters/internal/census"
	"github.com/idlewheel/idlewheel/idle"
)

// Options configures a [Collector]. A nil *Options means all defaults.
type Options struct {
	// NoCensus leaves out the metrics for which each scrape takes a census.
	NoCensus bool
}

// A Collector is a [prometheus.Collector] of trackers. It does nothing between scrapes.
type Collector struct {
	sources []*source
}

// New returns a collector for the trackers. Their keys are the values of the label tracker. A
// registry may have several collectors if no key is in two of them.
//
// New fails if there is no tracker, if one is nil, and if a key is empty or not valid UTF-8. A tracker
// may be closed, now or later. opts may be nil.
func New(trackers map[string]*idle.Tracker, opts *Options) (*Collector, error) {
	if len(trackers) == 0 {
		return nil, fmt.Errorf("idleprom: there are no trackers; pass at least one, by the name that its metrics are to have")
	}
	c := &Collector{}
	for _, name := range slices.Sorted(maps.Keys(trackers)) {
		switch {
		case name == "":
			return nil, fmt.Errorf("idleprom: the name of a tracker is empty; it is the value of the label tracker, so choose one")
		case !utf8.ValidString(name):
			return nil, fmt.Errorf("idleprom: the name %q of a tracker is not valid UTF-8, as the values of labels must be", name)
		case trackers[name] == nil:
			return nil, fmt.Errorf("idleprom: tracker %q is nil; make it with idle.New, or take the Tracker of an adapter", name)
		}
		s := &source{tracker: trackers[name], descs: describe(name), phases: names{most: 100}, causes: names{most: 50}}
		if opts == nil || !opts.NoCensus {
			s.census = census.NewCache(s.tracker, 0)
		}
		c.sources = append(c.sources, s)
	}
	return c, nil
}

// Describe implements [prometheus.Collector].
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, s := range c.sources {
		for _, d := range s.descs {
			ch <- d
		}
	}
}

// Collect implements [prometheus.Collector]. Any number of goroutines may call it. A callback on
// an event loop must not, because it would wait for a census of its own loop.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	var all sync.WaitGroup
	for _, s := range c.sources {
		all.Go(func() { s.collect(ch) })
	}
	all.Wait()
}
