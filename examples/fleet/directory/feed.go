package directory

// A Feed is what a node tells the directories of one partition: who comes and goes, and all that
// it has when one of them asks. The zero value is ready to use. C is what the node keeps of a
// connection. The caller sees to it that one goroutine at a time uses a Feed.
type Feed[C any] struct {
	Seq     uint64 // of the last batch
	members map[string]Member[C]
	changes map[string]Change // since the last batch, by client
	wanted  bool              // a snapshot has to begin
	rest    []string          // clients that the snapshot under way has not named yet
	part    int               // of that snapshot; 0 if none is under way
	calls   int               // of Next since it began, or since the last one ended
	slow    int               // a snapshot has a part in one of 2^slow batches
}

// The caller calls Next ten times a second.
const (
	early = 10  // calls: whoever has asked then did so before the snapshot began
	calm  = 100 // calls without another snapshot, after which the next one has its full pace

	slowest = 4 // slow, at most: a part in 16 batches
)

// A Member is a client of the node.
type Member[C any] struct {
	Session uint64
	Conn    C
}

// Len returns how many clients the node has in this partition.
func (f *Feed[C]) Len() int { return len(f.members) }

// Find returns a client of the node.
func (f *Feed[C]) Find(client string) (m Member[C], ok bool) {
	m, ok = f.members[client]
	return m, ok
}

// Arrive notes a session that has begun.
func (f *Feed[C]) Arrive(client string, m Member[C]) {
	if f.members == nil {
		f.members, f.changes = map[string]Member[C]{}, map[string]Change{}
	}
	f.members[client] = m
	f.changes[client] = Change{Client: client, Session: m.Session}
}

// End notes the end of a session, unless a later one has replaced it.
func (f *Feed[C]) End(client string, session uint64, why string) {
	if m, ok := f.members[client]; !ok || m.Session != session {
		return
	}
	delete(f.members, client)
	f.changes[client] = Change{Client: client, Session: session, Why: why}
}

// Resync has a snapshot follow, because a directory has asked. Several may ask for the same one.
// If one is under way, or was until a moment ago, then that one was too fast for somebody, and
// the next has half its pace. Otherwise nodes and directories could go on forever: directories
// that are too slow miss batches, ask again, and get more than before.
func (f *Feed[C]) Resync() {
	if f.wanted || f.part > 0 && f.calls < early {
		return
	}
	f.begin(f.slow + 1)
}

// Begin has a snapshot begin now, whatever is under way: of a new epoch, or because the batches of
// the last one may be lost.
func (f *Feed[C]) Begin() {
	f.begin(f.slow)
	f.part, f.rest = 0, nil
}

// begin has a snapshot follow at the given pace, or at full pace after a calm time.
func (f *Feed[C]) begin(slow int) {
	if f.part == 0 && f.calls >= calm {
		slow = 0
	}
	f.wanted, f.slow = true, min(slow, slowest)
}

// Next returns what to tell, and false if that is nothing. A batch names so many clients at most.
// Node and Epoch are the caller's.
func (f *Feed[C]) Next(most int) (b Batch, ok bool) {
	if f.part == 0 && f.wanted {
		f.wanted, f.rest = false, make([]string, 0, len(f.members))
		for client := range f.members {
			f.rest = append(f.rest, client)
		}
		clear(f.changes) // the snapshot has them
		f.calls = 0
	}
	for client, c := range f.changes {
		if len(b.Changes) == most {
			break
		}
		b.Changes = append(b.Changes, c)
		delete(f.changes, client)
	}
	if f.rest != nil && f.calls%(1<<f.slow) == 0 {
		f.part++
		b.Part = f.part
		n := min(len(f.rest), most-len(b.Changes)) // changes do not wait for a long snapshot
		for _, client := range f.rest[:n] {
			if m, ok := f.members[client]; ok { // it may have ended since the first part
				b.Here = append(b.Here, Change{Client: client, Session: m.Session})
			}
		}
		if f.rest = f.rest[n:]; len(f.rest) == 0 {
			b.Last, f.rest, f.part, f.calls = true, nil, 0, 0
		}
	}
	f.calls++
	if b.Part == 0 && len(b.Changes) == 0 {
		return b, false
	}
	f.Seq++
	b.Seq = f.Seq
	return b, true
}
