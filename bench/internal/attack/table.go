package attack

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Table writes r for people.
func (r *Report) Table(w io.Writer) error {
	var out bytes.Buffer
	fmt.Fprintf(&out, "attack: %s, %d attackers, %d honest clients, %d slow ones, %v s each\n\n", r.Server, r.Attackers, r.Honest, r.Slow, r.Duration)
	if r.Passed {
		fmt.Fprintf(&out, "PASS: with ours every attacker was cut, none before its limit or more than\n%v after, and no honest request failed.\n", r.late)
	}
	for _, f := range r.Faults {
		fmt.Fprintf(&out, "FAIL: %s\n", f)
	}
	l := r.Limits
	fmt.Fprintf(&out, "\nlimits: header and handshake %v s, keep-alive %v s,\n", l.Header, l.KeepAlive)
	fmt.Fprintf(&out, "  body %v s, %d B/s after %v s, response %v s, %d B/s after %v s\n", l.Body, l.Rate, l.Grace, l.Write, l.WriteRate, l.Grace)
	fmt.Fprintf(&out, "where: %s %s, %d CPUs\n", r.GoVersion, r.Platform, r.CPUs)
	r.tables(&out)
	fmt.Fprintln(&out, "\nThe limits are those of ours. The server's own timeouts are for whole requests\nand responses, so they come earlier for whoever is slow, honest or not.")
	_, err := w.Write(out.Bytes())
	return err
}

func (r *Report) tables(out io.Writer) {
	rows := func(title, head string, row func(o *outcome) string) {
		fmt.Fprintf(out, "\n%s\n", title)
		var all [][]string
		for _, o := range r.Runs {
			all = append(all, []string{o.Descriptors, o.Variant, row(o)})
		}
		tabulate(out, "descriptors\t\t"+head, all)
	}
	rows("honest clients: requests made, how many of them succeeded, and of those due",
		"requests\tsucceeded\tof due\tp50 ms\tp99 ms\tmax ms", func(o *outcome) string {
			h := o.Honest
			return fmt.Sprintf("%d\t%.1f %%\t%.1f %%\t%s\t%s\t%s", h.Requests, 100*h.SuccessRate, 100*h.ServedRate,
				h.took(h.Latency.P50), h.took(h.Latency.P99), h.took(h.Latency.Max))
		})
	rows("slow honest clients: requests that succeeded", "uploads\tdownloads", func(o *outcome) string {
		return fmt.Sprintf("%d of %d\t%d of %d", o.Uploads.succeeded(), o.Uploads.Requests, o.Downloads.succeeded(), o.Downloads.Requests)
	})
	rows("the server, soon after the attackers have come and at the end; what it closed\nand could not send is the kernel's",
		"connections\tgoroutines\tRSS MB\tunsent\tMB", func(o *outcome) string {
			return fmt.Sprintf("%d, %d\t%d, %d\t%.1f, %.1f\t%d\t%.1f", o.Full.Open, o.End.Open, o.Full.Goroutines, o.End.Goroutines,
				megabytes(o.Full.RSS), megabytes(o.End.RSS), o.End.Sockets, megabytes(o.End.Bytes))
		})
	for _, o := range r.Runs {
		fmt.Fprintf(out, "\nattackers of %s, %s descriptors: cut, and how long after their limit\n", o.Variant, o.Descriptors)
		var all [][]string
		for _, d := range o.Attacks {
			median, latest := "-", "-"
			if d.Cut > 0 {
				median, latest = fmt.Sprintf("%.0f", d.Past.Median), fmt.Sprintf("%.0f", d.Past.Max)
			}
			all = append(all, []string{d.Kind, fmt.Sprintf("%d\t%d\t%s\t%s\t%d\t%d", d.Attackers, d.Cut, median, latest, d.Early, d.Holding)})
		}
		tabulate(out, "\tattackers\tcut\tmedian ms\tmax ms\tbefore it\thold on", all)
	}
}

// tabulate lines up a head and rows, whose cells are separated by tabs.
func tabulate(out io.Writer, head string, rows [][]string) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, head+"\t")
	for _, row := range rows {
		fmt.Fprintln(t, strings.Join(row, "\t")+"\t")
	}
	t.Flush() // only into memory
}

func (s service) succeeded() int { return s.Requests - s.Failed }

// took says how long requests took, if any has succeeded.
func (s service) took(ms float64) string {
	if s.succeeded() == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", ms)
}

func megabytes(n int64) float64 { return float64(n) / 1e6 }
