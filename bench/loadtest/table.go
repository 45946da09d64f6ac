package main

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
)

// table writes r for people.
func (r *report) table(w io.Writer) error {
	var out bytes.Buffer
	what := "mock connections"
	if r.Mode == "sockets" {
		what = "TCP connections over loopback, to a server process"
	}
	fmt.Fprintf(&out, "loadtest: %s %s\n\n", group(r.Conns), what)
	paragraph(&out, r.verdict())
	fmt.Fprintln(&out)

	t := tabwriter.NewWriter(&out, 0, 0, 3, ' ', 0)
	r.tableRun(t)
	r.tableOutcome(t)
	r.tableCost(t)
	t.Flush() // only into memory
	if r.manyDeferred() {
		fmt.Fprintln(&out)
		paragraph(&out, r.deferral())
	}
	_, err := w.Write(out.Bytes())
	return err
}

// manyDeferred reports whether so much was deferred that it has to be explained.
func (r *report) manyDeferred() bool { return r.Deferred > uint64(r.Closed/10) }

// deferral says why much was deferred.
func (r *report) deferral() string {
	return fmt.Sprintf("%s of %s were late by a tick or more. That is normal where many are due together: "+
		"the tracker takes half of each tick for them and leaves the rest to the connections that are alive. "+
		"A machine that is busy with other things adds to it. With longer limits (-idle, -heartbeat) or fewer "+
		"connections (-conns), fewer are due together.", group(r.Deferred), group(r.Closed))
}

// verdict says how it went.
func (r *report) verdict() string {
	var text string
	if r.passed() && r.Expected == 0 {
		text = "PASS: no connection had to be closed, and none was."
	} else if r.passed() {
		text = fmt.Sprintf("PASS: %s connections had to be closed, and exactly those were, each for its reason and none too early.", group(r.Expected))
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
				faults = append(faults, group(f.n)+" "+f.what)
			}
		}
		text = fmt.Sprintf("FAIL: %s had to be closed; %s.", group(r.Expected), strings.Join(faults, ", "))
	}
	if r.Interrupted {
		text += "\nInterrupted: this covers what happened until then."
	}
	return text
}

func (r *report) tableRun(w io.Writer) {
	fmt.Fprintln(w, "what ran")
	row(w, "connections", "%s", r.kinds())
	row(w, "limits", "%s", r.limits())
	row(w, "tracker", "tick %v, shards %d", r.cfg.tick, r.Shards)
	row(w, "time", "%.1f s, of which %.1f s to set up; %s activities", r.Duration, r.Setup, group(r.Touches))
	row(w, "where", "%s %s, %d CPUs, seed %d", r.GoVersion, r.Platform, r.CPUs, r.Seed)
}

// kinds says how many connections of each kind there are.
func (r *report) kinds() string {
	var kinds []string
	for k := range numKinds {
		if n := r.Plan[k.String()]; n > 0 {
			kinds = append(kinds, group(n)+" "+k.String())
		}
	}
	return strings.Join(kinds, ", ")
}

// limits says what limits they have.
func (r *report) limits() string {
	text := fmt.Sprintf("closed after %v without activity", r.cfg.idle)
	if r.Plan[beater.String()]+r.Plan[pinged.String()] > 0 {
		text += fmt.Sprintf("; a heartbeat every %v, closed after %v without", r.cfg.heartbeat, r.cfg.staleAfter())
	}
	return text
}

func (r *report) tableOutcome(w io.Writer) {
	fmt.Fprintln(w, "\nwho was closed")
	row(w, "had to be closed", "%s", group(r.Expected))
	row(w, "closed", "%s", group(r.Closed))
	early := group(r.Early)
	if r.Early > 0 {
		early += fmt.Sprintf(", by up to %v ms", r.EarliestMS)
	}
	row(w, "too early", "%s", early)
	row(w, "missed", "%s", group(r.Missed))
	row(w, "wrong reason", "%s", group(r.WrongReason))
	if r.Draws > 0 {
		row(w, "draws", "%s, closed in the moment in which they came back, or ended, after their limit", group(r.Draws))
	}
	row(w, "ended by themselves", "%s", group(r.Left))
	row(w, "alive at the end", "%s", group(r.Live))
	seen := ""
	if r.Mode == "sockets" {
		seen = ", as seen by the peer"
	}
	row(w, "late", "median %v ms, p99 %v ms, at most %v ms%s", r.Late.P50, r.Late.P99, r.Late.Max, seen)
	row(w, "deferred", "%s came a tick (%v) or more after they were due", group(r.Deferred), r.cfg.tick)
}

func (r *report) tableCost(w io.Writer) {
	fmt.Fprintln(w, "\nwhat it cost")
	if r.Mode == "sockets" {
		fmt.Fprintln(w, "  (the first lines: as many mock connections, in a process without sockets)")
	}
	row(w, "an activity", "%v ns of a random connection, %v ns of the same one; %v allocations", r.TouchNS, r.HotNS, r.AllocsPerTouch)
	if r.LoadedNS > 0 {
		row(w, "under the load", "%.1f ns, one connection after the other", r.LoadedNS)
	}
	row(w, "a connection", "%v bytes", r.BytesPerConn)
	row(w, "timing out", "%v %% of a core, in %s passes over due connections", r.TrackerCPU, group(r.Passes))
	row(w, "a pass", "p99 %v ms, at most %v ms", r.Pause.P99, r.Pause.Max)
	row(w, "looks, relinks", "%s, %s", group(r.Looks), group(r.Relinks))
	if r.Pings > 0 {
		row(w, "pings, misses", "%s, %s", group(r.Pings), group(r.Misses))
	}
}

// group writes a number with a comma after every three digits.
func group[T int | int64 | uint64](n T) string {
	s := strconv.FormatInt(int64(n), 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
