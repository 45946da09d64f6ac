package main

import (
	"bytes"
	"fmt"
	"io"
	"text/tabwriter"
)

// table writes r for people.
func (r *report) table(w io.Writer) error {
	var out bytes.Buffer
	fmt.Fprintf(&out, "attack: %s, %d attackers, %d honest clients and %d slow ones, %v s each\n\n", r.Server, r.Attackers, r.Honest, r.Slow, r.Duration)
	if r.Passed {
		fmt.Fprintf(&out, "PASS: with ours every attacker was cut, none before its limit or more than %v after,\nand no honest request failed.\n", r.late)
	}
	for _, f := range r.Faults {
		fmt.Fprintf(&out, "FAIL: %s\n", f)
	}
	l := r.Limits
	fmt.Fprintf(&out, "\nlimits: header and handshake %v s; body %v s, %d B/s after %v s; response %v s, %d B/s after %v s; keep-alive %v s\n",
		l.Header, l.Body, l.Rate, l.Grace, l.Write, l.WriteRate, l.Grace, l.KeepAlive)
	fmt.Fprintf(&out, "where: %s %s, %d CPUs\n", r.GoVersion, r.Platform, r.CPUs)

	r.tableHonest(&out)
	r.tableServer(&out)
	r.tableAttacks(&out)
	_, err := w.Write(out.Bytes())
	return err
}

// tabbed lines up cells that write ends by tabs.
func tabbed(out io.Writer, write func(t io.Writer)) {
	t := tabwriter.NewWriter(out, 0, 0, 3, ' ', tabwriter.AlignRight)
	write(t)
	t.Flush() // only into memory
}

func (r *report) tableHonest(out io.Writer) {
	fmt.Fprintln(out, "\nhonest clients: requests that succeeded, of those made and of those that were to be made, and how long these took")
	tabbed(out, func(t io.Writer) {
		fmt.Fprintln(t, "descriptors\t\trequests\tsucceeded\tof due\tp50 ms\tp99 ms\tmax ms\tslow uploads\tslow downloads\t")
		for _, o := range r.Runs {
			h := o.Honest
			fmt.Fprintf(t, "%s\t%s\t%d\t%.2f %%\t%.2f %%\t%s\t%s\t%s\t%s\t%s\t\n", o.Descriptors, o.Variant, h.Requests,
				100*h.SuccessRate, 100*h.ServedRate, h.took(h.Latency.P50), h.took(h.Latency.P99), h.took(h.Latency.Max),
				o.Uploads.share(), o.Downloads.share())
		}
	})
}

// share says how many requests have succeeded.
func (s service) share() string { return fmt.Sprintf("%d of %d", s.Requests-s.Failed, s.Requests) }

// took says how long requests took, if any has succeeded.
func (s service) took(ms float64) string {
	if s.Failed == s.Requests {
		return "-"
	}
	return fmt.Sprintf("%.1f", ms)
}

func (r *report) tableServer(out io.Writer) {
	fmt.Fprintln(out, "\nthe server: soon after the attackers have come, and at the end")
	tabbed(out, func(t io.Writer) {
		fmt.Fprintln(t, "descriptors\t\tconnections\tat the end\tgoroutines\tat the end\tRSS MB\tat the end\tclosed but unsent\tMB\t")
		for _, o := range r.Runs {
			fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%d\t%.1f\t%.1f\t%d\t%.1f\t\n", o.Descriptors, o.Variant, o.Full.Open, o.End.Open,
				o.Full.Goroutines, o.End.Goroutines, megabytes(o.Full.RSS), megabytes(o.End.RSS),
				o.End.Sockets, megabytes(o.End.Bytes))
		}
	})
}

func megabytes(n int64) float64 { return float64(n) / 1e6 }

func (r *report) tableAttacks(out io.Writer) {
	for _, o := range r.Runs {
		fmt.Fprintf(out, "\nattackers of %s, %s descriptors: cut, and how long after their limit\n", o.Variant, o.Descriptors)
		tabbed(out, func(t io.Writer) {
			fmt.Fprintln(t, "\tattackers\tcut\tmedian ms\tmax ms\tbefore it\thold on at the end\t")
			for _, d := range o.Attacks {
				median, latest := "-", "-"
				if d.Cut > 0 {
					median, latest = fmt.Sprintf("%.0f", d.Past.Median), fmt.Sprintf("%.0f", d.Past.Max)
				}
				fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%s\t%d\t%d\t\n", d.Kind, d.Attackers, d.Cut, median, latest, d.Early, d.Holding)
			}
		})
	}
	fmt.Fprintln(out, "\nThe limits are those of ours. The server's own timeouts are for whole requests and responses, so they\ncome earlier for who is slow, the honest ones included.")
}
