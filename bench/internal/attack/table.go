package attack

import (
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/idlewheel/idlewheel/bench/internal/stats"
	"github.com/idlewheel/idlewheel/bench/internal/table"
)

// Table writes r for people.
func (r *Report) Table(w io.Writer) {
	if r.Passed && len(r.Floods) == 0 {
		table.Paragraph(w, fmt.Sprintf("\nPASS: with ours every attacker was cut, none before its limit or more than %v after, and no honest request failed.", r.cfg.Late))
	}
	for _, f := range r.Faults {
		table.Paragraph(w, "\nFAIL: "+f)
	}
	if len(r.Floods) > 0 {
		r.floods(w)
		return
	}
	l := r.cfg.Limits
	table.Paragraph(w, fmt.Sprintf("\nlimits: header and handshake %v; body %v, %d B/s after %v; response %v, %d B/s after %v; keep-alive %v",
		l.Header, l.Body, l.Rate, l.Grace, l.Write, l.WriteRate, l.Grace, l.KeepAlive))
	fmt.Fprintf(w, "where: %s %s, %d CPUs\n", r.GoVersion, r.Platform, r.CPUs)

	r.byRun(w, "honest clients: requests, how many of them succeeded, and of those due",
		[]string{"requests", "succeeded", "of due", "p50 ms", "p99 ms", "max ms"}, func(o *outcome) []string {
			h := o.Honest
			return []string{strconv.Itoa(h.Requests), percent(h.SuccessRate), percent(h.ServedRate), h.took(h.Latency.P50), h.took(h.Latency.P99), h.took(h.Latency.Max)}
		})
	r.byRun(w, "slow honest clients: requests that succeeded", []string{"uploads", "downloads"}, func(o *outcome) []string {
		return []string{
			fmt.Sprintf("%d of %d", o.Uploads.succeeded(), o.Uploads.Requests),
			fmt.Sprintf("%d of %d", o.Downloads.succeeded(), o.Downloads.Requests),
		}
	})
	r.byRun(w, "the server, soon after the attackers have come and at the end; what it closed and could not send is left to the kernel",
		[]string{"connections", "goroutines", "RSS MB", "unsent", "MB"}, func(o *outcome) []string {
			return []string{
				fmt.Sprintf("%d, %d", o.Full.Open, o.End.Open), fmt.Sprintf("%d, %d", o.Full.Goroutines, o.End.Goroutines),
				fmt.Sprintf("%.1f, %.1f", float64(o.Full.RSS)/1e6, float64(o.End.RSS)/1e6),
				strconv.Itoa(o.End.Unsent), fmt.Sprintf("%.1f", float64(o.End.Bytes)/1e6),
			}
		})
	for _, o := range r.Runs {
		t := table.Table{
			Title:   fmt.Sprintf("\nattackers of %s, %s descriptors, by what should end them: cut, and how long after that limit", o.Variant, o.Descriptors),
			Columns: []string{"", "cases", "attackers", "cut", "median ms", "max ms", "before it", "hold on"},
		}
		for _, d := range o.byLimit() {
			median, latest := "-", "-"
			if len(d.pasts) > 0 {
				median, latest = fmt.Sprintf("%.0f", d.Past.Median), fmt.Sprintf("%.0f", d.Past.Max)
			}
			t.Add(string(d.Limit), strconv.Itoa(d.cases), strconv.Itoa(d.Attackers), strconv.Itoa(d.Cut), median, latest, strconv.Itoa(d.Early), strconv.Itoa(d.Holding))
		}
		t.Write(w)
	}
	table.Paragraph(w, "\nThe limits are those of ours. The server's own timeouts are for whole requests and responses, so they come earlier for clients that are slow, honest ones included.")
}

// byLimit returns a sum of the defences for each limit.
func (o *outcome) byLimit() (all []sum) {
	for _, d := range o.Attacks {
		i := slices.IndexFunc(all, func(s sum) bool { return s.Limit == d.Limit })
		if i < 0 {
			i, all = len(all), append(all, sum{defence: defence{Limit: d.Limit}})
		}
		s := &all[i]
		s.cases++
		s.Attackers += d.Attackers
		s.Cut += d.Cut
		s.Early += d.Early
		s.Holding += d.Holding
		if s.pasts = append(s.pasts, d.pasts...); len(s.pasts) > 0 {
			s.Past = stats.Summarize(s.pasts)
		}
	}
	return all
}

// A sum is of the defences against several cases.
type sum struct {
	defence
	cases int
}

// byRun writes a table with a row for each run.
func (r *Report) byRun(w io.Writer, title string, columns []string, cells func(o *outcome) []string) {
	t := table.Table{Title: "\n" + title, Left: 2, Columns: append([]string{"descriptors", "variant"}, columns...)}
	for _, o := range r.Runs {
		t.Add(append([]string{o.Descriptors, o.Variant}, cells(o)...)...)
	}
	t.Write(w)
}

func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

func (s service) succeeded() int { return s.Requests - s.Failed }

// took says how long requests took, if any has succeeded.
func (s service) took(ms float64) string {
	if s.succeeded() == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", ms)
}
