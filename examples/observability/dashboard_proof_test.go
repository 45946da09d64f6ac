//go:build proof

package observability

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
)

// A dashboard is what matters of dashboard.json.
type dashboard struct {
	Title      string
	UID        string
	Templating struct {
		List []struct{ Name, Type, Definition string }
	}
	Panels []panel
}

type panel struct {
	ID                       int
	Type, Title, Description string
	GridPos                  struct{ X, Y, W, H int }
	Datasource               struct{ Type, UID string }
	Targets                  []struct {
		Expr, LegendFormat, RefID string
		Datasource                struct{ Type, UID string }
	}
}

func TestDashboard(t *testing.T) {
	var d dashboard
	if err := json.Unmarshal(readFile(t, "dashboard.json"), &d); err != nil {
		t.Fatal(err)
	}
	variables := map[string]string{}
	for _, v := range d.Templating.List {
		variables[v.Name] = v.Type
	}
	if d.Title == "" || d.UID == "" || variables["datasource"] != "datasource" || variables["tracker"] != "query" || variables["node"] != "query" {
		t.Errorf("%q, %q, variables %v", d.Title, d.UID, variables)
	}
	known := scrape(t, first(newRegistry(t)))
	data := grow(known)
	used, ids := map[string]bool{}, map[int]bool{}
	for i, p := range d.Panels {
		if p.ID == 0 || ids[p.ID] {
			t.Errorf("%q: the ID %d is 0 or not unique", p.Title, p.ID)
		}
		ids[p.ID] = true
		a := p.GridPos
		for _, other := range d.Panels[:i] {
			if b := other.GridPos; a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
				t.Errorf("%q covers %q", p.Title, other.Title)
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Title == "" || p.Description == "" || len(p.Targets) == 0 || p.Datasource.UID != "${datasource}" || a.X+a.W > 24 {
			t.Errorf("%q: something is missing, or it is too wide", p.Title)
		}
		for _, target := range p.Targets {
			if target.Datasource.UID != "${datasource}" || strings.Count(target.Expr, "{") != strings.Count(target.Expr, `{tracker=~"$tracker", instance=~"$node"`) {
				t.Errorf("%q does not use the variables: %s", p.Title, target.Expr)
			}
			exprOf := func(node string) string {
				return strings.NewReplacer("$__rate_interval", "5m", "$tracker", "test", "$node", node).Replace(target.Expr)
			}
			expr := exprOf("host")
			names, results := check(t, p.Title, expr, known)
			if v := evaluate(t, data, expr, 10); len(v) == 0 && !strings.Contains(expr, "> 0") {
				t.Errorf("%q shows nothing by %s", p.Title, expr)
			}
			if v := evaluate(t, data, exprOf("other"), 10); len(v) > 0 {
				t.Errorf("%q shows a node that was not selected by %s", p.Title, target.Expr)
			}
			for name := range names {
				used[name] = true
			}
			for _, l := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(target.LegendFormat, -1) {
				if !results[l[1]] {
					t.Errorf("%q: the legend %q names a label that %s does not have", p.Title, target.LegendFormat, expr)
				}
			}
		}
	}
	for name := range known {
		if base := unsuffixed(name, known); !used[base] {
			t.Errorf("the dashboard does not show %s", base)
		}
	}
}

// grow returns the series of a scrape as if it had been repeated for ten minutes while all
// values grew. Like all that Prometheus has scraped, they have an instance.
func grow(known map[string]*metric) storage.Queryable {
	m := &memory{Querier: storage.NoopQuerier()}
	for _, k := range known {
		for _, one := range k.series {
			s := promql.Series{Metric: labels.NewBuilder(one.labels).Set("instance", "host").Labels()}
			for i := range 11 {
				if one.native != nil {
					s.Histograms = append(s.Histograms, promql.HPoint{T: minute(i).UnixMilli(), H: one.native.ToFloat(nil).Mul(float64(i))})
				} else {
					s.Floats = append(s.Floats, promql.FPoint{T: minute(i).UnixMilli(), F: one.value * float64(i)})
				}
			}
			m.series = append(m.series, s)
		}
	}
	return &storage.MockQueryable{MockQuerier: m}
}

// check parses an expression, and looks up its metrics and labels. It returns the metrics,
// without suffixes of histograms, and the labels that the result may have.
func check(t *testing.T, where, text string, known map[string]*metric) (names, results map[string]bool) {
	t.Helper()
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil {
		t.Fatalf("%s: %v in %s", where, err, text)
	}
	names, results = map[string]bool{}, map[string]bool{}
	inExpr := map[string]bool{"instance": true, "job": true} // of the scrape
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		v, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		m := known[v.Name]
		if m == nil {
			t.Errorf("%s: there is no %s", where, v.Name)
			return nil
		}
		names[unsuffixed(v.Name, known)] = true
		for l := range m.labels {
			inExpr[l] = true
		}
		for _, want := range v.LabelMatchers {
			if want.Name != "__name__" && want.Name != "instance" && !m.labels[want.Name] {
				t.Errorf("%s: %s has no label %s", where, v.Name, want.Name)
			}
		}
		return nil
	})
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if a, ok := node.(*parser.AggregateExpr); ok {
			for _, l := range a.Grouping {
				if !inExpr[l] {
					t.Errorf("%s: no metric in it has a label %s", where, l)
				}
				if !a.Without {
					results[l] = true
				}
			}
		}
		return nil
	})
	return names, results
}

// unsuffixed returns the name of the histogram to which name belongs, or name.
func unsuffixed(name string, known map[string]*metric) string {
	for _, suffix := range []string{"_bucket", "_count", "_sum"} {
		if base, ok := strings.CutSuffix(name, suffix); ok && known[base] != nil {
			return base
		}
	}
	return name
}
