package model

// Flags are the state of a connection: the flags in the order of package idle, where conn.go
// says what they mean, and above them the number of misses.
type Flags uint32

// The flags.
const (
	Live Flags = 1 << iota
	Ending
	Over
	Asking
	Telling
	Pinging
	Unanswered
	Evicting
	Dismissed
	Exact

	flags  = 2*Exact - 1
	aMiss  = Flags(1 << 16)
	Misses = 0x7f * aMiss // the mask of their number
	all    = flags | Misses
)

// A Transition is a change of a connection's state.
type Transition struct {
	Name      string
	By        []string // the functions of package idle that make it
	Need, Not Flags    // set, and not set, before it
	Set       Flags
	Clear     Flags
	Miss      bool // one more is counted
}

// Allows reports whether t may change was to is.
func (t *Transition) Allows(was, is Flags) bool {
	return was&(t.Need|t.Not) == t.Need && is == t.apply(was)
}

func (t *Transition) apply(was Flags) Flags {
	is := was&^t.Clear | t.Set
	if t.Miss {
		is += aMiss
	}
	return is
}

// Transitions are all changes of a connection's state. TestModel compares them with what the
// model does, and TestTraces of package idle with what the code does.
var Transitions = []Transition{
	// Track.
	{Name: "track", By: by("Shard.add"), Not: all, Set: Live},

	// What the owner reports.
	{Name: "deliver", By: by("Conn.deliverSlow"), Need: Live, Clear: Ending},
	{Name: "begin", By: by("Conn.begin"), Clear: Unanswered | Misses},

	// The end. One that may be averted needs Ending, and one that is forced does not.
	{Name: "mark", By: by("Shard.check", "Shard.ask", "Shard.mayEnd"), Need: Live, Not: Ending, Set: Ending},
	{Name: "spare", By: by("Shard.dismiss"), Need: Live | Ending, Clear: Ending},
	{Name: "put-back", By: by("Shard.replace"), Need: Live, Clear: Ending | Asking},
	{Name: "expire", By: by("Shard.end"), Need: Live | Ending, Set: Over, Clear: Live},
	{Name: "force", By: by("Shard.end"), Need: Live, Set: Over | Ending, Clear: Live},
	{Name: "stop", By: by("Conn.Stop", "Shard.takeOne"), Need: Live, Set: Over, Clear: all &^ Over},

	// What a pass does.
	{Name: "ask", By: by("Shard.ask"), Need: Live, Not: Asking, Set: Asking, Clear: Ending},
	{Name: "ping", By: by("Shard.ping"), Not: Unanswered, Set: Unanswered},
	{Name: "call-ping", By: by("Shard.ping"), Need: Live, Not: Pinging, Set: Pinging},
	{Name: "pinged", By: by("Shard.ping"), Clear: Pinging},
	{Name: "miss", By: by("Shard.check"), Miss: true},
	{Name: "no-miss", By: by("Shard.check"), Need: Live, Clear: Misses},
	{Name: "tell", By: by("Shard.tell"), Need: Live, Not: Telling, Set: Telling},
	{Name: "told", By: by("Shard.tell"), Need: Telling, Clear: Telling},

	{Name: "measure", By: by("Shard.measure"), Need: Live, Not: Exact, Set: Exact},

	{Name: "beats-kept", By: by("Conn.keep"), Clear: Unanswered | Misses},

	// Orders.
	{Name: "dismiss", By: by("Conn.End"), Need: Live, Not: Dismissed, Set: Dismissed},
	{Name: "evict", By: by("Shard.markEvicting"), Need: Live, Not: Evicting, Set: Evicting},
	{Name: "evict-no-more", By: by("Shard.spareEvicting"), Need: Live | Evicting, Clear: Evicting},
}

func by(functions ...string) []string { return functions }
