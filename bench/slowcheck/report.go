package main

import (
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/idlewheel/idlewheel/bench/internal/machine"
	"github.com/idlewheel/idlewheel/bench/internal/program"
	"github.com/idlewheel/idlewheel/bench/internal/slow"
	"github.com/idlewheel/idlewheel/bench/internal/table"
)

// A report is what -json prints.
type report struct {
	Machine *machine.Machine `json:"machine,omitempty"` // of the field
	Servers []tried          `json:"servers"`
	Missing []string         `json:"missing,omitempty"` // servers of the field that could not be started here, and why

	failIf func(server string) bool // a hole of it is a failure
}

type tried struct {
	Name    string        `json:"name"`
	Config  string        `json:"config,omitempty"`  // in a sentence
	Version string        `json:"version,omitempty"` // of the server
	Results []slow.Result `json:"results"`
}

// Status implements program.Result.
func (r *report) Status() int {
	for _, s := range r.Servers {
		for _, res := range s.Results {
			if r.failIf(s.Name) && !res.Good() {
				return program.Fail
			}
		}
	}
	return program.Pass
}

// Table implements program.Result.
func (r *report) Table(w io.Writer) {
	if len(r.Servers) == 1 && len(r.Missing) == 0 {
		r.Servers[0].table(w)
		n := r.Servers[0].counts()
		fmt.Fprintf(w, "\n%d cases ended, %d held; %d honest clients served, %d cut; %d not tried\n", n[slow.Ended], n[slow.Held], n[slow.Passed], n[slow.Cut], n[slow.Skipped]+n[slow.Refused])
		return
	}
	r.overview(w)
	for _, s := range r.Servers {
		fmt.Fprintln(w)
		s.table(w)
	}
	for _, m := range r.Missing {
		table.Paragraph(w, "Not tried: "+m)
	}
}

// overview has a row for each server.
func (r *report) overview(w io.Writer) {
	t := table.Table{Title: "What holds which server", Columns: []string{"server", "ended", "held", "honest", "cut", "not tried"},
		Caption: "ended: slow clients that the server ended by itself; held: those that it did not end; honest: honest slow clients that it served; cut: those that it did not serve; not tried: the server does not have what the case needs"}
	for _, s := range r.Servers {
		n := s.counts()
		t.Add(s.Name, count(n[slow.Ended]), count(n[slow.Held]), count(n[slow.Passed]), count(n[slow.Cut]), count(n[slow.Skipped]+n[slow.Refused]))
	}
	t.Write(w)
}

func count(n int) string { return fmt.Sprint(n) }

// table has a row for each case that was tried, and says what the others lack and which limits
// are missing.
func (s *tried) table(w io.Writer) {
	t := table.Table{Title: s.Name, Columns: []string{"case", "outcome", "after"}, Left: 2}
	var faults, reasons []string
	untried := map[string][]string{} // cases, by why
	for _, res := range s.Results {
		switch {
		case !res.Tried():
			if untried[res.Why] == nil {
				reasons = append(reasons, res.Why)
			}
			untried[res.Why] = append(untried[res.Why], res.Name)
			continue
		case res.Good():
		case res.Control():
			faults = append(faults, fmt.Sprintf("Cut: %s %s. It should be served, because %s.", res.Name, res.Does, res.Reason))
		default:
			faults = append(faults, fmt.Sprintf("Held: %s %s. What should end it: %s.", res.Name, res.Does, res.Limit))
		}
		t.Add(res.Name, outcome(res), seconds(res))
	}
	t.Write(w)
	for _, text := range faults {
		table.Paragraph(w, text)
	}
	for _, why := range reasons {
		table.Paragraph(w, fmt.Sprintf("Not tried: %s (%s).", strings.Join(untried[why], ", "), why))
	}
	if s.Config != "" {
		table.Paragraph(w, s.Config)
	}
}

func outcome(r slow.Result) string {
	text := r.Outcome
	if r.Outcome == slow.Held && r.Harmless {
		text += ", which costs little"
	}
	if r.By != "" {
		text += " by " + r.By
	}
	if r.Why != "" {
		text += ": " + r.Why
	}
	return text
}

func seconds(r slow.Result) string {
	if r.After == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f s", r.After)
}

// writePage writes a page with a row for each case, and a column for each server.
func writePage(w io.Writer, r *report) error {
	return page.Execute(w, map[string]any{"Servers": r.Servers, "Rows": r.rows(), "Missing": r.Missing})
}

// A row is a case on all servers.
type row struct {
	slow.Case
	Cells []slow.Result
}

func (r *report) rows() (rows []row) {
	if len(r.Servers) == 0 {
		return nil
	}
	for i, first := range r.Servers[0].Results {
		one := row{Case: first.Case}
		for _, s := range r.Servers {
			one.Cells = append(one.Cells, s.Results[i])
		}
		rows = append(rows, one)
	}
	return rows
}

// counts returns how many results have which outcome.
func (s *tried) counts() map[string]int {
	n := map[string]int{}
	for _, r := range s.Results {
		n[r.Outcome]++
	}
	return n
}

var page = template.Must(template.New("").Funcs(template.FuncMap{"seconds": seconds, "outcome": outcome}).Parse(`<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><title>Slow clients</title>
<style>
body { font: 14px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 100em; padding: 0 1em }
table { border-collapse: collapse } th, td { border: 1px solid #ddd; padding: .2em .5em; text-align: left; vertical-align: top }
.held, .cut { background: #fdd } .ended, .passed { background: #dfd } .refused, .skipped { color: #999 }
small { color: #666; display: block }
</style>
<h1>Which slow clients hold which server</h1>
<p>One connection for each case. Green: the server has ended it, or served an honest client. Red: held to the end, or an honest client was cut.</p>
<table><tr><th>case</th>{{range .Servers}}<th>{{.Name}}<small>{{.Version}}</small></th>{{end}}</tr>
{{range .Rows}}<tr><td>{{.Name}}{{if .Control}} (honest){{end}}<small>{{.Does}}</small><small>{{if .Control}}Served because {{.Reason}}{{else}}Limit: {{.Limit}}{{with .Beside}}; control: {{.}}{{end}}{{end}}</small></td>
{{range .Cells}}<td class="{{.Outcome}}" title="{{.Why}}">{{.Outcome}} {{seconds .}}<small>{{.By}}</small></td>{{end}}</tr>
{{end}}</table>
{{range .Servers}}{{if .Config}}<p><b>{{.Name}}</b>: {{.Config}}</p>{{end}}{{end}}
{{range .Missing}}<p>Not tried: {{.}}</p>{{end}}
</html>
`))
