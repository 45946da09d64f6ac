package observability

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
)

// rules returns the rules as promtool reads them.
func rules(t *testing.T) (all []rulefmt.Rule) {
	t.Helper()
	groups, errs := rulefmt.ParseFile("alerts.yaml", false, model.LegacyValidation, parser.NewParser(parser.Options{}), slog.Default())
	for _, err := range errs {
		t.Error(err)
	}
	if groups == nil {
		t.FailNow()
	}
	for _, g := range groups.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

// calm is what a healthy server looks like, in samples of a minute: `value+increment x times`.
var calm = []string{
	`idlewheel_connections 5000x1600`,
	`idlewheel_connections_max 10000x1600`,
	`idlewheel_connections_refused_total{limit="full"} 3x1600`,
	`idlewheel_connections_tracked_total 5000+120x1600`,
	`idlewheel_connections_ended_total{reason="idle"} 0+60x1600`,
	`idlewheel_connections_ended_total{reason="heartbeat"} 0+60x1600`,
	`idlewheel_connections_ended_total{reason="read"} 0x1600`,
	`idlewheel_connections_ended_total{reason="drain"} 0x1590 5000x10`,
	`idlewheel_connections_ended_total{reason="evict"} 0x1600`,
	`idlewheel_connections_ended_total{reason="shed"} 0x1597 3000x3`, // by the operation below
	`idlewheel_timeout_lateness_seconds_bucket{le="0.015625"} 0+119x1600`,
	`idlewheel_timeout_lateness_seconds_bucket{le="0.03125"} 0+120x1600`,
	`idlewheel_timeout_lateness_seconds_bucket{le="+Inf"} 0+120x1600`,
	`idlewheel_timeouts_deferred_total 0+2x1600`,
	`idlewheel_pings_total 0+1000x1600`,
	`idlewheel_pings_missed_total 0+50x1600`,
	`idlewheel_pass_seconds_total 0+3x1600`,
	`idlewheel_backlog_age_seconds 0.2x1600`,
	`idlewheel_pressure_ratio 0.2x1600`,
	`idlewheel_pressure_read_failures_total 1x1600`,
	`idlewheel_callback_panics_total 2x1600`,
	`idlewheel_end_reports_lost_total 100x1600`,
	`idlewheel_census_late_total 1x1600`,
	`process_open_fds 100x1600`,
	`process_max_fds 1000x1600`,
	`up 1x1600`,
	`idlewheel_operations{operation="drain",state="running"} 0x1590 1x10`,
	`idlewheel_operations{operation="drain",state="paused"} 0x1600`,
	`idlewheel_operations{operation="shed",state="running"} 0x1590 1x10`,
	`idlewheel_operations{operation="shed",state="paused"} 0x1600`,
	`fleet_engine_connected 1x1600`,
	`fleet_lease_held 1x1600`,
	`fleet_leases_begun_total 0x1597 1x3`, // it has just started
	`fleet_limits_refused 0x1600`,
	`fleet_clients{node="node1",fleet="fleet"} 6000x1600`,
	`fleet_clients{node="node2",fleet="fleet"} 7000x1600`,
	`fleet_clients{node="node3",fleet="fleet"} 0x1590 6000x10`,
	`fleet_clients{node="node1",fleet="small"} 90x1600`,
	`fleet_clients{node="node2",fleet="small"} 10x1600`,
}

// now is the minute at which rules are evaluated.
const now = 1600

// troubles are series that have a rule fire. They replace calm ones of the same name and
// labels.
var troubles = map[string][]string{
	"IdlewheelTimeoutsLate": {
		`idlewheel_timeout_lateness_seconds_bucket{le="0.015625"} 0+99x1600`,
		`idlewheel_timeout_lateness_seconds_bucket{le="0.03125"} 0+100x1600`, // a sixth takes longer
		`idlewheel_timeout_lateness_seconds_bucket{le="4"} 0+120x1600`,
	},
	"IdlewheelTimeoutsDeferred": {`idlewheel_timeouts_deferred_total 0+30x1600`},
	"IdlewheelBacklog":          {`idlewheel_backlog_age_seconds 0x1580 3x20`},
	"IdlewheelPingsMissed":      {`idlewheel_pings_missed_total 0+300x1600`},
	"IdlewheelEvicting":         {`idlewheel_connections_ended_total{reason="evict"} 0+20x1600`},
	"IdlewheelRefusing":         {`idlewheel_connections_refused_total{limit="key"} 0x1590 0+5x10`},
	"IdlewheelFull":             {`idlewheel_connections_refused_total{limit="full"} 3x1590 3+300x10`},
	"IdlewheelNearlyFull":       {`idlewheel_connections 5000x1580 9500x20`},
	"IdlewheelUnusualReason":    {`idlewheel_connections_ended_total{reason="read"} 0x1560 0+200x40`},
	"IdlewheelEndReportsLost":   {`idlewheel_end_reports_lost_total 0x1598 10x2`},
	"IdlewheelCallbackPanics":   {`idlewheel_callback_panics_total 2x1598 3x2`},
	"IdlewheelPressure":         {`idlewheel_pressure_ratio 0.2x1580 0.9x20`},
	"IdlewheelPressureUnknown":  {`idlewheel_pressure_read_failures_total 1x1580 1+1x20`},
	"IdlewheelDrainSlow":        {`idlewheel_operations{operation="drain",state="paused"} 0x1530 1x70`},
	"IdlewheelMassEnd":          {`idlewheel_connections_ended_total{reason="idle"} 0+60x1598 99000x2`},
	"IdlewheelMassEndByProgram": {
		`idlewheel_connections_ended_total{reason="shed"} 0x1598 3000x2`,
		`idlewheel_operations{operation="shed",state="running"} 1x1590 0x10`, // a shed that is over doesn't count
	},
	"IdlewheelOperationStarted": {`idlewheel_operations{operation="shed",state="running"} 0x1597 1x3`},
	"IdlewheelDescriptors":      {`process_open_fds 100x1580 950x20`},
	"IdlewheelTargetDown":       {`up 1x1580 0x20`},
	"IdlewheelCensusLate":       {`idlewheel_census_late_total 1x1570 1+4x30`},
	"FleetEngineAway":           {`fleet_engine_connected 1x1590 0x10`, `fleet_lease_held 1x1590 0x10`},
	"FleetNoLease":              {`fleet_lease_held 1x1590 0x10`},
	"FleetLeaseLost":            {`fleet_leases_begun_total 1x1597 2x3`},
	"FleetLimitsRefused":        {`fleet_limits_refused 0x1598 1x2`},
	"FleetUneven":               {`fleet_clients{node="node3",fleet="fleet"} 0x1600`, `fleet_clients{node="node2",fleet="fleet"} 19000x1600`},
}

// accompanied are alerts with which another one fires.
var accompanied = map[string]string{"IdlewheelFull": "IdlewheelRefusing"}

// TestAlerts: each alert fires on its series and no other one does, and none on calm series.
func TestAlerts(t *testing.T) {
	all := rules(t)
	for _, r := range all {
		if troubles[r.Alert] == nil {
			t.Errorf("there is no test of %s", r.Alert)
		}
	}
	if got := firing(t, all, calm); len(got) > 0 {
		t.Errorf("%q fire on calm series", got)
	}
	for alert, series := range troubles {
		want := []string{alert}
		if with := accompanied[alert]; with != "" {
			want = []string{with, alert} // in the order of the file
		}
		if got := firing(t, all, slices.Concat(series, calm)); !slices.Equal(got, want) {
			t.Errorf("%q fire on the trouble of %s, want %q", got, alert, want)
		}
	}
}

// TestFullForMostOnly: IdlewheelFull doesn't fire if the tracker refuses fewer than it accepts,
// or if another limit refuses.
func TestFullForMostOnly(t *testing.T) {
	for _, refused := range []string{
		`idlewheel_connections_refused_total{limit="full"} 3x1590 3+60x10`,
		`idlewheel_connections_refused_total{limit="key"} 0x1590 0+300x10`,
	} {
		if got := firing(t, rules(t), slices.Concat([]string{refused}, calm)); !slices.Equal(got, []string{"IdlewheelRefusing"}) {
			t.Errorf("%q fire on %s", got, refused)
		}
	}
}

// TestSlowBleed: the program ends more and more of the connections that come. A shed may do so too,
// and for half an hour after it nobody can tell the two apart.
func TestSlowBleed(t *testing.T) {
	bleeds, still := `idlewheel_connections_ended_total{reason="shed"} 0x1560 0+40x40`, `idlewheel_operations{operation="shed",state="running"} 0x1600`
	for name, test := range map[string]struct {
		series []string
		want   []string
	}{
		"by the program": {[]string{bleeds, still}, []string{"IdlewheelUnusualReason"}},
		"by a shed":      {[]string{bleeds, `idlewheel_operations{operation="shed",state="running"} 0x1560 1x20 0x20`}, nil},
		"as always":      {[]string{`idlewheel_connections_ended_total{reason="shed"} 0+40x1600`, still}, nil},
	} {
		if got := firing(t, rules(t), slices.Concat(test.series, calm)); !slices.Equal(got, test.want) {
			t.Errorf("%s: %q fire, want %q", name, got, test.want)
		}
	}
}

// TestMassEnd: a server whose clients come and go by its own timeouts all day has no mass end. It
// has one when many more end at once.
func TestMassEnd(t *testing.T) {
	mass := slices.DeleteFunc(rules(t), func(r rulefmt.Rule) bool { return r.Alert != "IdlewheelMassEnd" })
	connections := func(tracked, ended string) []string {
		return []string{`idlewheel_connections 5000x1600`, "idlewheel_connections_tracked_total " + tracked, `idlewheel_connections_ended_total{reason="read"} ` + ended}
	}
	for name, test := range map[string]struct {
		series []string
		want   bool // it fires within the hour
	}{
		"keep-alive":                 {connections("5000+4000x1600", "0+2700x1600"), false},
		"a third more load":          {connections("5000+4000x1590 4000000+5300x10", "0+2700x1590 4293000+3600x10"), false},
		"a new server":               {connections("_x1539 0+4000x60", "_x1539 0 2000+2700x59"), false},
		"a new server, clients slow": {connections("_x1539 0+500x60", "_x1539 0x10 0+500x50"), false}, // IdleTimeout is 10 minutes
		"a restart":                  {connections("0+4000x1550 0+4000x49", "0+2700x1550 0 2000+2700x48"), false},
		"at once":                    {connections("5000+10x1600", "0+10x1550 19500+10x49"), true},
		"within five minutes":        {connections("5000+10x1600", "0x1550 1000+1000x4 5000x45"), true},
		"in a crowd of keep-alives":  {connections("5000+4000x1600", "0+270x1550 422500+270x49"), true},
	} {
		data, got := load(t, test.series), 0
		for m := now - 60; m <= now; m++ {
			got += len(evaluate(t, data, mass[0].Expr, m))
		}
		if fires := got > 0; fires != test.want {
			t.Errorf("%s: it fires at %d minutes, want any: %v", name, got, test.want)
		}
	}
}

// TestEvictions: connections are evicted for hours, and the one alert about that fires.
func TestEvictions(t *testing.T) {
	evicting := []string{`idlewheel_connections_ended_total{reason="evict"} 0x1500 0+2000x100`, "idlewheel_connections_tracked_total 5000+120x1500 185000+2120x100"}
	if got := firing(t, rules(t), slices.Concat(evicting, calm)); !slices.Equal(got, []string{"IdlewheelEvicting"}) {
		t.Errorf("%q fire", got)
	}
}

// TestQuietLateness: on a server with few timeouts a late one is no alert.
func TestQuietLateness(t *testing.T) {
	quiet := []string{
		`idlewheel_connections_ended_total{reason="idle"} 0+5x1600`,
		`idlewheel_connections_ended_total{reason="heartbeat"} 0x1600`,
		`idlewheel_timeout_lateness_seconds_bucket{le="0.015625"} 0+4x1600`,
		`idlewheel_timeout_lateness_seconds_bucket{le="0.03125"} 0+4x1600`,
		`idlewheel_timeout_lateness_seconds_bucket{le="4"} 0+5x1600`, // one in a minute
		`idlewheel_timeout_lateness_seconds_bucket{le="+Inf"} 0+5x1600`,
		`idlewheel_timeouts_deferred_total 0x1600`,
	}
	if got := firing(t, rules(t), slices.Concat(quiet, calm)); len(got) > 0 {
		t.Errorf("%q fire on a quiet server", got)
	}
}

// TestNewInstance: an instance that has just started is no reason for an alert. Its
// IdleTimeout is 10 minutes, so nobody has been idle for long at first.
func TestNewInstance(t *testing.T) {
	all := rules(t)
	for _, age := range []int{11, 20, 30, 40, 44, 50, 60, 90, 120, 240, 350, 360, 370, 400, 800} {
		series := slices.DeleteFunc(slices.Clone(calm), func(s string) bool { return strings.HasPrefix(s, "idlewheel_connections_") })
		before := now - age
		series = append(series,
			fmt.Sprintf(`idlewheel_connections_tracked_total _x%d 0+120x1600`, before-1),
			fmt.Sprintf(`idlewheel_connections_ended_total{reason="read"} _x%d 0+20x1600`, before-1),
			fmt.Sprintf(`idlewheel_connections_ended_total{reason="idle"} _x%d 0x10 0+100x1600`, before-1),
		)
		if got := firing(t, all, series); len(got) > 0 {
			t.Errorf("%q fire %d minutes after the start", got, age)
		}
		// The same after a restart that a scrape does not miss.
		for i, rate := range []int{120, 20, 100} {
			s := &series[len(series)-3+i]
			*s = strings.Replace(*s, fmt.Sprintf("_x%d", before-1), fmt.Sprintf("0+%dx%d", rate, before-1), 1)
		}
		if got := firing(t, all, series); len(got) > 0 {
			t.Errorf("%q fire %d minutes after a restart", got, age)
		}
	}
}

// TestRefusingAtOnce: connections are refused for a minute, and the alert fires then, and
// not when that is over.
func TestRefusingAtOnce(t *testing.T) {
	for ago, want := range map[int][]string{0: {"IdlewheelRefusing"}, 2: {"IdlewheelRefusing"}, 7: nil} {
		burst := []string{fmt.Sprintf(`idlewheel_connections_refused_total{limit="full"} 3x%d 9x1600`, now-1-ago)}
		if got := firing(t, rules(t), slices.Concat(burst, calm)); !slices.Equal(got, want) {
			t.Errorf("%d minutes after a burst %q fire, want %q", ago, got, want)
		}
	}
}

// TestNativeLateness: the rule on lateness works with native histograms, as well.
func TestNativeLateness(t *testing.T) {
	native := func(buckets string) []string {
		return slices.DeleteFunc(slices.Concat(calm, []string{`idlewheel_timeout_lateness_seconds {{schema:0 count:0 sum:0}}+{{schema:0 count:120 sum:10 offset:-6 buckets:[` + buckets + `]}}x1600`}),
			func(s string) bool { return strings.Contains(s, "_bucket") })
	}
	all := rules(t)
	if got := firing(t, all, native("119 1")); len(got) > 0 {
		t.Errorf("%q fire on calm series", got)
	}
	if got := firing(t, all, native("100 0 0 0 0 0 0 0 20")); !slices.Equal(got, []string{"IdlewheelTimeoutsLate"}) {
		t.Errorf("%q fire on late timeouts", got)
	}
}

// firing returns the alerts that fire at the minute now: those with a result at each
// minute for as long as the rule says.
func firing(t *testing.T, all []rulefmt.Rule, series []string) (alerts []string) {
	t.Helper()
	data := load(t, series)
	for _, r := range all {
		count := map[uint64]int{} // by labels
		minutes := int(time.Duration(r.For).Minutes())
		for m := now - minutes; m <= now; m++ {
			for _, s := range evaluate(t, data, r.Expr, m) {
				if s.Metric.Get("tracker") != "test" || s.Metric.Get("instance") != "host" {
					t.Errorf("%s has the labels %v, and its summary names the tracker and the instance", r.Alert, s.Metric)
				}
				count[s.Metric.Hash()]++
			}
		}
		for _, n := range count {
			if n == minutes+1 {
				alerts = append(alerts, r.Alert)
			}
		}
	}
	return alerts
}

// evaluate returns the value of an expression at a minute. There must be no warning.
func evaluate(t *testing.T, data storage.Queryable, expr string, at int) promql.Vector {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, Parser: parser.NewParser(parser.Options{})})
	query, err := engine.NewInstantQuery(t.Context(), data, nil, expr, minute(at))
	if err != nil {
		t.Fatal(expr, err)
	}
	result := query.Exec(t.Context())
	vector, err := result.Vector()
	if err != nil || len(result.Warnings) > 0 {
		t.Fatal(expr, err, result.Warnings)
	}
	return vector
}

func minute(m int) time.Time { return time.Unix(0, 0).Add(time.Duration(m) * time.Minute) }

// A memory has series, and answers queries.
type memory struct {
	storage.Querier
	series []promql.Series
}

// load returns the series that are described as promtool's tests describe them, with
// sequences one after the other. Of several with the same labels the first is taken.
func load(t *testing.T, described []string) storage.Queryable {
	t.Helper()
	m := &memory{Querier: storage.NoopQuerier()}
	taken := map[uint64]bool{}
	for _, text := range described {
		metric, values, err := parser.NewParser(parser.Options{}).ParseSeriesDesc(text)
		if err != nil {
			t.Fatal(text, err)
		}
		metric = labels.NewBuilder(metric).Set("tracker", "test").Set("instance", "host").Labels()
		if taken[metric.Hash()] {
			continue
		}
		taken[metric.Hash()] = true
		s := promql.Series{Metric: metric}
		for i, v := range values {
			if v.Omitted {
				continue
			}
			if v.Histogram != nil {
				s.Histograms = append(s.Histograms, promql.HPoint{T: minute(i).UnixMilli(), H: v.Histogram})
			} else {
				s.Floats = append(s.Floats, promql.FPoint{T: minute(i).UnixMilli(), F: v.Value})
			}
		}
		m.series = append(m.series, s)
	}
	return &storage.MockQueryable{MockQuerier: m}
}

func (m *memory) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	set := &seriesSet{}
next:
	for _, s := range m.series {
		for _, want := range matchers {
			if !want.Matches(s.Metric.Get(want.Name)) {
				continue next
			}
		}
		set.left = append(set.left, s)
	}
	return set
}

// A seriesSet implements storage.SeriesSet.
type seriesSet struct {
	at   promql.Series
	left []promql.Series
}

func (s *seriesSet) Next() bool {
	if len(s.left) == 0 {
		return false
	}
	s.at, s.left = s.left[0], s.left[1:]
	return true
}

func (s *seriesSet) At() storage.Series                { return promql.NewStorageSeries(s.at) }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }

// readFile returns a file of this directory.
func readFile(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
