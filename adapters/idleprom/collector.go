package idleprom

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/idlewheel/idlewheel/idle"
	"github.com/idlewheel/idlewheel/idle/pressure"
)

// Options configures a [Collector]. Each field may be zero, which means the default. A nil
// *Options means all defaults.
type Options struct {
	// CensusTimeout is how long a scrape waits for the censuses of its trackers. If one takes
	// longer, for example because an event loop is blocked, it goes on, and the scrape has the
	// results of the last one that finished. The default is 1 s.
	CensusTimeout time.Duration

	// Pressure, if not nil, returns the Follower of a tracker's limits, by the tracker's name, or
	// nil if there is none. It is called at each scrape.
	Pressure func(tracker string) *pressure.Follower

	// NoCensus leaves out the metrics for which each scrape takes a census.
	NoCensus bool
}

const defaultTimeout = time.Second

// complete returns o with defaults filled in, or an error that names an invalid field.
func (o *Options) complete() (full Options, err error) {
	if o != nil {
		full = *o
	}
	if full.CensusTimeout != 0 && full.CensusTimeout < time.Millisecond {
		return full, fmt.Errorf("idleprom: Options.CensusTimeout is %v; it must be at least 1ms, such as 2*time.Second, or 0 for %v", full.CensusTimeout, defaultTimeout)
	}
	if full.CensusTimeout == 0 {
		full.CensusTimeout = defaultTimeout
	}
	return full, nil
}

// A Collector is a [prometheus.Collector] of trackers. It does nothing between scrapes.
type Collector struct {
	sources []*source
}

// New returns a collector for the trackers. Their keys are the values of the label tracker. A
// registry may have several collectors if no key is in two of them.
//
// New fails if a tracker is nil, if a key is empty or not valid UTF-8, and if a field of
// opts is invalid. The error names it. A tracker may be closed, now or later.
func New(trackers map[string]*idle.Tracker, opts *Options) (*Collector, error) {
	o, err := opts.complete()
	if err != nil {
		return nil, err
	}
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
		c.sources = append(c.sources, newSource(name, trackers[name], o))
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
