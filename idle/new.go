package idle

// New returns a tracker that starts connections under the policy p. opts may be
// nil. New fails if p sets no limit, or if a value in p or opts is invalid; the
// error names it. The tracker has a goroutine, so call [Tracker.Close] or
// [Tracker.CloseWhenEmpty] after use. If nobody refers to the tracker any more, the garbage
// collector ends it, when the last limit of a connection has passed or would have.
func New(p Policy, opts *Options) (*Tracker, error) {
	full, err := opts.complete(TickFor(p))
	if err != nil {
		return nil, err
	}
	if !p.setsLimit() {
		return nil, errNoLimit()
	}
	t := new(Tracker)
	t.base.init(full)
	t.room = newRoom(&t.base)
	if t.phase, err = t.Phase(p); err != nil {
		return nil, err
	}
	for range full.Shards {
		t.own = append(t.own, t.newShard(nil))
	}
	t.startDriver()
	return t, nil
}
