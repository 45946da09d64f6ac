package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Programs are the operations on a connection: in which order each loads (<) and stores (>) the
// words. They are written in the notation of the Go specification: [ ] is optional and { } is
// any number of times. A store of the state names the transition. A swap that fails is a load.
//
// An operation is a function of package idle, or a closure in one, and its name has a dot. The
// others are parts, which may have arguments: $1 and so on.
const Programs = `
# Words and flags.
change     = <state { <state } [ >state.$1 ]
raise      = <$1 { <$1 } [ >$1 ]
store      = raise($1) | >$1

# The deadline. What makes it count is loaded before what makes it later.
snapshot   = <state <in.wait <out.wait <pinged <in.stamp <out.stamp <in.paid <out.paid <began <beat <born <told <pingSent
isBusy     = <phase [ <in.wait [ <state ] ]
look       = <phase snapshot
placeAt    = >placed look { >placed look }
place      = look placeAt
hasten     = <placed [ <state [ place ] ]

# Activities. The arguments of restamp are the words for use and keepalive, and what is expected.
restamp    = <state ( <state { <state } ( >state.$3 <$1 <pinged ( store($1) | store($2) ) | store($1) ) | store($1) ) change(revoke)
touch      = <in.stamp [ restamp(in.stamp,beat,answer) ]
touchOut   = <out.stamp [ restamp(out.stamp,pingSent,ping-sent) ]
pay        = <$1.stamp <$2 <$1.wait <$1.paid [ <$1.paid ] >$1.paid <phase [ raise($1.paid) ]
paySent    = <phase [ pay(out,pingSent) ]

Conn.Touch    = touch
Conn.TouchOut = touchOut
Conn.Received = touch <phase [ pay(in,beat) ]
Conn.Sent     = touchOut paySent
Conn.Beat     = <beat [ restamp(beat,beat,answer) ]
Conn.BeatOut  = <pingSent [ restamp(pingSent,pingSent,ping-sent) ] paySent

# Waits. A pause is paid for before the wait begins, and the deadline brought forward after it.
startWait  = { <$1.wait <$1.paid ( <$1.paid | [ >$1.paid ] <$1.wait <$1.wait [ >$1.paid | <$1.paid ] ) } ( <$1.wait | <$1.wait <$1.paid [ >$1.paid ] >$1.wait startsWait($1,$2) )
startsWait = <phase hasten [ <$1.paid [ >state.$2 <$1.paid [ change($2-vain) ] | <state ] hasten ]
await      = <$1.wait [ <phase startWait($1,$2) ]
pause      = <$1.wait [ <phase <$1.wait { <$1.wait } [ >$1.wait [ >$1.paid ] ] ]
rewait     = raise($1.wait)
suspend    = change($3) <$1.wait [ <$1.stamp <$2 [ <began ] pause($1) ]
resume     = <$1.wait [ <phase <began <$1.stamp <$2 [ <$1.wait ] startWait($1,$3) [ <began rewait($1) change($4) [ rewait($1) ] ] ]

Conn.AwaitRead    = await(in,overdue-in)
Conn.AwaitWrite   = await(out,overdue-out)
Conn.PauseRead    = pause(in)
Conn.PauseWrite   = pause(out)
Conn.RestartWrite = await(out,overdue-out) <phase rewait(out) >out.paid change(overdue-out-vain) hasten
Conn.SuspendRead  = suspend(in,beat,read-anew)
Conn.SuspendWrite = suspend(out,pingSent,write-anew)
Conn.ResumeRead   = resume(in,beat,overdue-in,read-anew)
Conn.ResumeWrite  = resume(out,pingSent,overdue-out,write-anew)
Conn.Deliver      = <state [ change(deliver) ]

# Phases, and policies that are replaced. All clocks start over before the phase is stored.
beginFlow    = [ <$1.wait ] <$1.paid [ >$1.paid ] raise($1.stamp) raise($1.wait)
begin        = raise(began) beginFlow(in) beginFlow(out) raise(beat) raise(pinged) change(begin)
settle       = <$1.paid [ raise($1.paid) ]
enter        = begin { begin } >phase settle(in) settle(out)
raisePaid    = <$1.wait raise($1.paid)
repay        = <$1.wait [ >$1.wait | <$1.wait ] raisePaid($1)
letOff       = repay($1) raisePaid($1)
countFromNow = <$1.paid { <phase <$1.paid <$1.paid } [ <phase [ >$1.paid ] ] change($2) letOff($1) change($2)
follow       = { <phase [ countFromNow(in,reads-anew) ] [ countFromNow(out,writes-anew) ] [ raise(pinged) change(beats-anew) ] ( >phase | <phase ) } <phase

Conn.Enter   = <phase [ follow ] enter { enter } hasten [ snapshot hasten ]
idle.renewed = <phase [ <state [ follow [ look <placed [ place ] ] ] ]

# The beginning and the end.
started = >born >began >beat >pinged >told >pingSent >in.stamp >out.stamp >in.wait >out.wait begin >phase
insert  = follow [ <phase ] [ change(admit) [ <born ] place ]
expire  = <state { <state } ( >state.expire | >state.expire-to-reap )
force   = <state { <state } ( >state.force | >state.force-to-reap )

Shard.track      = <state | >state.track started [ insert ] [ >state.refuse ]
Conn.close       = <state { <state } [ >state.stop | >state.stop-expired ]
Shard.takeOne    = <state [ <state { <state } >state.stop ]
Shard.endLinger  = <state [ <state { <state } [ >state.stop-expired ] ]
Shard.lingerFor  = <state [ >placed ]

# A pass. A connection is marked before the last look that decides that it ends.
refreshFlow = <$1.wait [ rewait($1) | repay($1) ]
refresh     = raise(born) raise(began) raise(beat) raise(pinged) raise(told) raise(pingSent) raise(in.stamp) raise(out.stamp) refreshFlow(in) refreshFlow(out)
replace     = change(spare) <state [ follow place ]
decide      = follow <phase snapshot <state [ replace ]
noticeIn    = <phase <beat <in.stamp ( raise(beat) | raise(in.stamp) )
noticeOut   = <pingSent <out.stamp ( raise(pingSent) | raise(out.stamp) )
unreported  = <out.wait <out.paid [ <out.paid ] >out.paid
granted     = <state { <state } [ >state.grant raise(in.stamp) <in.stamp <beat [ change(grant-in-vain) ] <phase [ letOff(in) | repay(in) ] ] awaitBeat
awaitBeat   = <phase [ <pinged <beat [ raise(pinged) ] ]
apply       = <state [ [ noticeIn ] [ noticeOut ] [ rewait(out) ] [ <out.wait ] [ rewait(out) letOff(out) ] <phase [ unreported ] [ granted ] ]
ping        = raise(pinged) change(ping) replace change(call-ping)
told        = raise(told) replace [ change(tell) ]
ask         = <state { <state } ( >state.ask [ >placed ] | replace )
restartWait = rewait($1) [ change($2) [ rewait($1) [ change($3) ] ] ]
restart     = raise(out.stamp) | restartWait(in,kept-in,read-anew) | restartWait(out,kept-out,write-anew) | letOff(in) | letOff(out) | raise(pinged) change(beats-anew) | raise(began)
timeOut     = expire | [ <state { <state } ] replace
keep        = <state { <state } [ [ >state.keep ] restart replace ]
timesOut    = <state [ change(mark) decide [ apply decide ] [ timeOut | replace ] ]

depart      = dismiss [ change(mark) decide ]

Shard.isDue      = <state [ <placed [ <placed >placed ] | >placed | refresh follow look [ placeAt ] ]
Shard.check      = <state [ <state ( dismiss | change(mark) decide [ depart ] { apply decide } [ replace | change(no-miss) ping | >state.miss ping | told | ask | timeOut ] ) ]
Shard.ping.func1 = <state [ <phase [ >state.expect ] ]
Shard.ping.func2 = <state { <state } [ >state.pinged | >state.ping-failed ]
Shard.tell.func1 = <state
Shard.tell.func2 = change(told)
Shard.ask.func1  = <state
Shard.ask.func2  = ( keep | timesOut ) change(asked)

# Orders, and drains. One that may be averted is marked before the look, as in a pass.
isInUse = isBusy [ <out.wait | apply [ <out.wait ] [ isBusy ] ]
found   = <phase <in.stamp <out.stamp

dismiss = <state [ found ( force | <state { <state } <state ) | change(mark) [ <in.stamp <out.stamp ] [ isInUse ] ( change(spare) | found ( expire | <state { <state } <state ) ) ]

Shard.dismiss   = dismiss
Shard.takeTurns = <in.stamp <out.stamp | <born ( look <placed [ placeAt ] | <state [ >placed ] )
`

// An automaton accepts the runs of an operation, one after the other.
type automaton struct {
	next   []map[string][]int // for each state, where a token leads to
	silent [][]int            // and where none leads to
	after  []string           // the program of the token that leads to a state, and that with its number in it
	accept int
}

func (a *automaton) state() int {
	a.next, a.silent, a.after = append(a.next, map[string][]int{}), append(a.silent, nil), append(a.after, "")
	return len(a.next) - 1
}

func (a *automaton) empty(from, to int) { a.silent[from] = append(a.silent[from], to) }

// closure adds to states what is reached without a token, and sorts them.
func (a *automaton) closure(states []int) []int {
	seen := map[int]bool{}
	for todo := states; len(todo) > 0; {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if !seen[s] {
			seen[s] = true
			todo = append(todo, a.silent[s]...)
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// A grammar makes automata of the programs in a text.
type grammar struct{ programs map[string][]string }

// parse reads programs. It panics if there is a mistake, as it's for a constant.
func parse(text string) *grammar {
	g := &grammar{programs: map[string][]string{}}
	for line := range strings.Lines(text) {
		if line, _, _ = strings.Cut(line, "#"); strings.TrimSpace(line) == "" {
			continue
		}
		name, body, ok := strings.Cut(line, "=")
		if name = strings.TrimSpace(name); !ok || g.programs[name] != nil {
			panic("model: " + line)
		}
		g.programs[name] = strings.Fields(body)
	}
	return g
}

// isOperation reports whether a program is one, and not a part of others.
func isOperation(name string) bool { return strings.Contains(name, ".") }

// automaton returns that of an operation.
func (g *grammar) automaton(name string) *automaton {
	a := &automaton{}
	start := a.state()
	a.accept = a.state()
	g.add(a, name, g.programs[name], start, a.accept)
	a.empty(a.accept, start)
	return a
}

// add adds alternatives of a program that lead from one state to another, until the words or
// the bracket end. It returns the words that are left.
func (g *grammar) add(a *automaton, program string, words []string, from, to int) []string {
	at := from
	for len(words) > 0 {
		w, number := words[0], len(g.programs[program])-len(words)
		words = words[1:]
		switch w {
		case "|":
			a.empty(at, to)
			at = from
		case ")", "]", "}":
			a.empty(at, to)
			return words
		case "(", "[", "{":
			begin, end := a.state(), a.state()
			words = g.add(a, program, words, begin, end)
			a.empty(at, begin)
			if w != "(" {
				a.empty(begin, end)
			}
			if w == "{" {
				a.empty(end, begin)
			}
			at = end
		default:
			next := a.state()
			if w[0] == '<' || w[0] == '>' {
				a.next[at][w] = append(a.next[at][w], next)
				a.after[next] = fmt.Sprintf("%s %d: %s", program, number+1, g.programs[program][number])
			} else {
				part, body := g.part(w)
				g.add(a, part, body, at, next)
			}
			at = next
		}
	}
	a.empty(at, to)
	return nil
}

// part returns the name and the words of a part that is used with arguments.
func (g *grammar) part(use string) (name string, words []string) {
	name, args, _ := strings.Cut(strings.TrimSuffix(use, ")"), "(")
	words = slices.Clone(g.programs[name])
	if words == nil {
		panic("model: no program " + name)
	}
	var pairs []string
	for i, arg := range strings.Split(args, ",") {
		pairs = append(pairs, fmt.Sprint("$", i+1), arg)
	}
	with := strings.NewReplacer(pairs...)
	for i, w := range words {
		words[i] = with.Replace(w)
	}
	return name, words
}
