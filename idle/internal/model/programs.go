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
snapshot   = <state <in.at <out.at <pinged <lastIn <lastOut <used <unread <in.paid <out.paid <began <beat <born <told
look       = <phase snapshot
placeAt    = >placed look { >placed look }
place      = look placeAt
forward    = <state [ look <placed [ placeAt ] ]
hasten     = <placed [ forward ]

# Activities.
touch      = <$1 [ store($1) ]
pay        = <$1.at <$1.paid { <$1.paid <$1.at <$1.paid } [ >$1.paid ]

Conn.Touch    = touch(lastIn)
Conn.TouchOut = touch(lastOut)
Conn.Use      = touch(used)
Conn.Beat     = touch(beat)
Conn.Received = touch(lastIn) <phase [ pay(in) ]
Conn.Sent     = touch(lastOut) <phase [ pay(out) ]

# Waits. A pause is paid for before the wait begins, and the deadline brought forward after it.
await      = <$1.at [ <phase { <$1.at [ <state <$1.paid ] ( <$1.paid | [ >$1.paid ] <$1.at ) } <$1.at [ [ <state <$1.paid [ >$1.paid ] ] >$1.at <phase [ letOff($1) ] hasten [ <$1.paid <state hasten ] ] ]
pause      = <phase <$1.at { [ <state ] <$1.at <$1.at } [ [ <state ] >$1.at ]

Conn.AwaitRead    = await(in)
Conn.AwaitWrite   = await(out)
Conn.PauseRead    = pause(in)
Conn.PauseWrite   = pause(out)
Conn.RestartWrite = <phase >out.paid >out.at <phase hasten [ <out.paid <state hasten ]
Conn.Deliver      = <state [ change(deliver) ]

# Phases, and policies that are replaced. All limits start over before the phase is stored.
restart = [ >$1.paid ] raise($1.at)
begin   = raise(began) raise(used) restart(in) restart(out) [ raise(beat) raise(pinged) change(begin) ]

Conn.Enter   = begin >phase hasten <in.at [ hasten [ <in.paid <state hasten ] ] <out.at [ hasten [ <out.paid <state hasten ] ] [ snapshot hasten ]
idle.renewed = forward

# The beginning and the end.
start   = >phase >lastIn >lastOut >used >unread >beat >pinged >began >born >told >in.at >in.paid >out.at >out.paid >placed
insert  = { <state } [ >state.track start [ place ] ]
expire  = <phase [ <state { <state } [ >state.expire ] ]
end     = [ <phase ] <state { <state } [ >state.expire ]
force   = [ <phase ] <state { <state } [ >state.force ]

Shard.Track     = <state { insert }
Conn.Stop       = [ <phase ] <state { <state } [ >state.stop ]
Shard.takeOne   = [ <phase ] <state { <state } >state.stop

# A pass. A connection is marked before the last look that decides that it ends.
refresh = <born [ raise(lastIn) raise(lastOut) raise(used) raise(unread) raise(beat) raise(pinged) raise(began) raise(born) raise(told) ]
replace = change(put-back) [ place ]
decide  = <phase snapshot <state [ replace ]
apply   = <state [ [ raise(lastIn) ] [ raise(lastOut) ] [ raise(out.at) ] [ <out.at ] [ raise(out.at) letOff(out) ] <phase [ pay(out) ] [ pay(in) ] [ <unread <lastIn <began [ raise(unread) ] ] ]
ping    = <pinged [ raise(pinged) change(ping) ] replace change(call-ping)
told    = raise(told) replace [ change(tell) ]
ask     = <state { <state } ( >state.ask [ >placed ] | replace )
letOff  = { <$1.paid <$1.at ( <$1.at | >$1.at <$1.paid ) } <$1.paid <$1.at >$1.at [ >$1.paid ]
measure = change(measure) letOff(in) letOff(out) replace
keep    = raise(used) | raise(in.at) | raise(out.at) | letOff(in) | letOff(out) | raise(beat) raise(pinged) change(beats-kept) | raise(began)
timeOut = expire [ replace ]

Shard.isDue      = <state [ >placed | refresh look [ placeAt ] ]
Shard.check      = <state ( dismiss | change(mark) decide [ dismiss [ change(mark) decide ] ] { apply decide } [ replace | change(no-miss) ping | >state.miss ping | told | measure | ask | timeOut ] )
Shard.ping.func1 = <state
Shard.ping.func2 = change(pinged)
Shard.tell.func1 = <state
Shard.tell.func2 = change(told)
Shard.ask.func1  = <state
Shard.ask.func2  = ( keep replace | <state [ change(mark) decide [ apply decide ] [ timeOut | replace ] ] )

# Orders, and drains. One that may be averted is marked before the look, as in a pass.
lastUse = <used <phase [ <lastIn <lastOut ]
isBusy  = <phase [ <in.at [ <state ] ]
isInUse = isBusy [ <out.at | apply [ <out.at ] [ isBusy ] ]
dismiss = <state [ <phase lastUse force | change(mark) [ lastUse ] [ isInUse ] ( change(spare) | <phase lastUse end [ change(spare) ] ) ]

Shard.dismiss   = dismiss
Shard.takeTurns = lastUse | forward <state [ >placed ]
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
