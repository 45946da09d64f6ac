package idle

// A tour is the part of a walk that goes through one lane. The lane's lock guards it.
//
// A walk visits all connections of a tracker. Each shard walks in its passes, with the
// budget that is left, and by one step a pass at least. So a walk and a pass of a shard
// never run at the same time. The lock is held for looksPerLock connections at most.
//
// Ground rules:
//
//   - A connection that is in the wheel when its shard starts to walk, and does not end
//     meanwhile, is visited exactly once. A connection that is tracked later is not
//     visited.
//   - A connection whose OnTimeout is running, or is being judged after that, is not in the
//     wheel, and is not visited. It has the flag asking.
//   - The flag walked of a connection tells whether the walk has seen it. The meaning of
//     the flag is inverted by each walk, so nobody has to reset the flags.
//   - When an activity moves a connection that the walk has not seen, it goes to the
//     front of the wheel, where the next pass pops it. A pass visits what it pops. So a
//     connection cannot slip from a slot ahead of the walk to one behind it.
type tour struct {
	on     bool   // there is a walk
	flag   uint32 // the flag of connections that the walk has seen: walked, or 0
	unseen int    // connections in the wheel that the walk has not seen
}

// begin starts a tour of n connections.
func (t *tour) begin(n int) { *t = tour{on: true, flag: t.flag ^ walked, unseen: n} }

// hasSeen reports whether the walk has seen e, or there is no walk.
func (t *tour) hasSeen(e *entry) bool { return !t.on || e.state.Load()&walked == t.flag }

// see marks e as seen.
func (t *tour) see(e *entry) {
	if e.state.Load()&walked != t.flag {
		e.state.set(t.flag, t.flag^walked)
	}
}
