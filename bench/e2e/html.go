package main

import (
	"fmt"

	"github.com/idlewheel/idlewheel/bench/internal/page"
	"github.com/idlewheel/idlewheel/bench/internal/stats"
)

// modules are the paths of the servers that are modules.
func modules() []string {
	return []string{"github.com/panjf2000/gnet/v2", "github.com/valyala/fasthttp"}
}

// page returns the result as a page with plots.
func (r *report) page() page.Page {
	p := page.Page{
		Title: "What timeouts cost a whole server",
		Intro: "The same server bare, with its own timeouts, and with idlewheel's, under the same load over loopback. " +
			"The variants take turns on one core, the load comes from another. " + legend +
			" Where the machine is shared, CPU time is the figure that moves less.",
	}
	for _, f := range r.Machine.Facts("servers") {
		p.Facts = append(p.Facts, page.Fact{Name: f[0], Value: f[1]})
	}
	p.Facts = append(p.Facts, page.Fact{Name: "run", Value: fmt.Sprintf("%s; %d connections, %d rounds, in each of which a variant has %v; messages of echo servers have %d bytes",
		r.Machine.Date, r.cfg.conns, r.cfg.rounds, r.cfg.duration, r.cfg.size)})
	for _, s := range r.Servers {
		if s.Stream != nil {
			p.Facts = append(p.Facts, page.Fact{Name: s.Server, Value: s.Stream.text()})
		}
		p.Add(s.throughput().Plot)
		p.Add(s.cpu().Plot)
		p.Tables = append(p.Tables, s.tables()...)
	}
	return p
}

// throughput is how many of the bare server's requests each variant answers.
func (r result) throughput() page.Bars {
	b := page.Bars{Title: r.Server + ": requests a second", XLabel: "% of the bare server's", Caption: "More is better."}
	for _, v := range r.Variants {
		b.Bars = append(b.Bars, bar(v.Name, v.RatioToBare, v.RatioToBare95))
	}
	b.Caption += " " + r.claim("requests a second", func(v measure) (float64, *stats.Interval) { return v.RatioToBare, v.RatioToBare95 })
	return b
}

// cpu is what a request costs the server.
func (r result) cpu() page.Bars {
	b := page.Bars{Title: r.Server + ": CPU time a request", XLabel: "% of the bare server's", Caption: "Less is better."}
	for _, v := range r.Variants {
		b.Bars = append(b.Bars, bar(v.Name, v.CPURatioToBare, v.CPURatioToBare95))
	}
	b.Caption += " " + r.claim("CPU time a request", func(v measure) (float64, *stats.Interval) { return v.CPURatioToBare, v.CPURatioToBare95 })
	return b
}

// bar returns a bar of a ratio to bare, and a line over the interval in which it
// lies with 95 % confidence.
func bar(name string, ratio float64, interval *stats.Interval) page.Bar {
	b := page.Bar{Name: name, Strong: name == us, Value: 100 * ratio, Note: " %"}
	switch r := (stats.Ratio{Median: ratio, Interval: interval}); {
	case interval == nil:
		b.Note = " % (one round)"
	case interval[0] < interval[1]:
		b.Low, b.High = 100*interval[0], 100*interval[1]
		b.Note = fmt.Sprintf(" %% (%.1f to %.1f)", b.Low, b.High)
		if !r.Shows() {
			b.Note += ", no difference shown"
		}
	}
	return b
}

// claim says what the intervals show of ours, and no more.
func (r result) claim(what string, ratio func(measure) (float64, *stats.Interval)) string {
	for _, v := range r.Variants {
		if v.Name != us {
			continue
		}
		median, interval := ratio(v)
		switch (stats.Ratio{Median: median, Interval: interval}).Direction() {
		case 1:
			return fmt.Sprintf("Ours: more %s than bare, by %.1f to %.1f %%.", what, 100*(interval[0]-1), 100*(interval[1]-1))
		case -1:
			return fmt.Sprintf("Ours: less %s than bare, by %.1f to %.1f %%.", what, 100*(1-interval[1]), 100*(1-interval[0]))
		}
	}
	return "Between ours and bare no difference is shown."
}
