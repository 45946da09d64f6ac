package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/idlewheel/idlewheel/bench/internal/table"
)

// A section is a part of the result: names, and what is to be said of them.
type section struct {
	title, note string
	rows        [][2]string
}

func (s *section) add(name, format string, args ...any) {
	s.rows = append(s.rows, [2]string{name, fmt.Sprintf(format, args...)})
}

const valueColumn = 24

// Table writes r for people.
func (r *report) Table(w io.Writer) {
	table.Paragraph(w, r.verdict())
	for _, s := range r.sections() {
		table.Paragraph(w, "\n"+s.title)
		if s.note != "" {
			table.Paragraph(w, "  "+s.note)
		}
		for _, row := range s.rows {
			table.Entry(w, row[0], row[1], valueColumn)
		}
	}
	if r.Deferred > uint64(r.Closed/10) { // so many that it has to be explained
		table.Paragraph(w, fmt.Sprintf("\n%s of %s were late by a tick or more. That is normal where many are due together: "+
			"the tracker takes half of each tick for them and leaves the rest to the connections that are alive. "+
			"A machine that is busy with other things adds to it. With longer limits (-idle, -heartbeat) or fewer "+
			"connections (-conns), fewer are due together.", table.Group(r.Deferred), table.Group(r.Closed)))
	}
}

// verdict says how it went.
func (r *report) verdict() string {
	var text string
	if r.passed() && r.Expected == 0 {
		text = "PASS: no connection had to be closed, and none was."
	} else if r.passed() {
		text = fmt.Sprintf("PASS: %s connections had to be closed, and exactly those were, each for its reason and none too early.", table.Group(r.Expected))
	} else {
		var faults []string
		for _, f := range []struct {
			n    int
			what string
		}{
			{r.Early, "closed too early"},
			{r.Missed, "not closed though due"},
			{r.WrongReason, "closed for a wrong reason"},
			{r.Unaccounted, "counted differently by the tracker"},
		} {
			if f.n > 0 {
				faults = append(faults, table.Group(f.n)+" "+f.what)
			}
		}
		text = fmt.Sprintf("FAIL: %s had to be closed; %s.", table.Group(r.Expected), strings.Join(faults, ", "))
	}
	if r.Interrupted {
		text += "\nInterrupted: this covers what happened until then."
	}
	return text
}

// sections are what the terminal and the page show.
func (r *report) sections() []section {
	ran := section{title: "what ran"}
	ran.add("connections", "%s", r.kinds())
	ran.add("limits", "%s", r.limits())
	ran.add("tracker", "tick %v, shards %d", r.cfg.Tick, r.Shards)
	ran.add("time", "%.1f s, of which %.1f s to set up; %s activities", r.Duration, r.Setup, table.Group(r.Touches))
	ran.add("where", "%s %s, %d CPUs, seed %d", r.GoVersion, r.Platform, r.CPUs, r.Seed)
	return []section{ran, r.outcome(), r.costs()}
}

// kinds says how many connections of each kind there are.
func (r *report) kinds() string {
	var kinds []string
	for k := range numKinds {
		if n := r.Plan[k.String()]; n > 0 {
			kinds = append(kinds, table.Group(n)+" "+k.String())
		}
	}
	return strings.Join(kinds, ", ")
}

// limits says what limits they have.
func (r *report) limits() string {
	text := fmt.Sprintf("closed after %v without activity", r.cfg.Idle)
	if r.Plan[beater.String()]+r.Plan[pinged.String()] > 0 {
		text += fmt.Sprintf("; a heartbeat every %v, closed after %v without", r.cfg.Heartbeat, r.cfg.staleAfter())
	}
	return text
}

func (r *report) outcome() section {
	s := section{title: "who was closed"}
	s.add("had to be closed", "%s", table.Group(r.Expected))
	s.add("closed", "%s", table.Group(r.Closed))
	early := table.Group(r.Early)
	if r.Early > 0 {
		early += fmt.Sprintf(", by up to %v ms", r.EarliestMS)
	}
	s.add("too early", "%s", early)
	s.add("missed", "%s", table.Group(r.Missed))
	s.add("wrong reason", "%s", table.Group(r.WrongReason))
	if r.Draws > 0 {
		s.add("draws", "%s, closed in the moment in which they came back, or ended, after their limit", table.Group(r.Draws))
	}
	s.add("ended by themselves", "%s", table.Group(r.Left))
	s.add("alive at the end", "%s", table.Group(r.Live))
	seen := ""
	if r.Mode == "sockets" {
		seen = ", as seen by the peer"
	}
	s.add("late", "median %v ms, p99 %v ms, at most %v ms%s", r.Late.P50, r.Late.P99, r.Late.Max, seen)
	s.add("deferred", "%s came a tick (%v) or more after they were due", table.Group(r.Deferred), r.cfg.Tick)
	return s
}

func (r *report) costs() section {
	s := section{title: "what it cost"}
	if r.Mode == "sockets" {
		s.note = "(the first lines: as many mock connections, in a process without sockets)"
	}
	s.add("an activity", "%v ns of a random connection, %v ns of the same one; %v allocations", r.TouchNS, r.HotNS, r.AllocsPerTouch)
	if r.LoadedNS > 0 {
		s.add("under the load", "%.1f ns, one connection after the other", r.LoadedNS)
	}
	s.add("a connection", "%v bytes", r.BytesPerConn)
	s.add("timing out", "%v %% of a core, in %s passes over due connections", r.TrackerCPU, table.Group(r.Passes))
	s.add("a pass", "p99 %v ms, at most %v ms", r.Pause.P99, r.Pause.Max)
	s.add("looks, relinks", "%s, %s", table.Group(r.Looks), table.Group(r.Relinks))
	if r.Pings > 0 {
		s.add("pings, misses", "%s, %s", table.Group(r.Pings), table.Group(r.Misses))
	}
	return s
}
