package attack

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/server"
	"github.com/idlewheel/idlewheel/bench/internal/slow"
	"github.com/idlewheel/idlewheel/bench/internal/spread"
	"github.com/idlewheel/idlewheel/bench/internal/stats"
)

// verdict judges an outcome.
func verdict(o outcome) *Report {
	r := &Report{cfg: Config{Late: 3 * time.Second}}
	r.Runs = append(r.Runs, &o)
	r.judge()
	return r
}

func TestJudge(t *testing.T) {
	fine := service{Requests: 10, SuccessRate: 1}
	failing := service{Requests: 10, Failed: 1, Error: "EOF"}
	for _, c := range []struct {
		o    outcome
		want string // "" for no fault
	}{
		{outcome{Variant: server.Ours, Honest: fine, Uploads: fine, Downloads: fine}, ""},
		{outcome{Variant: server.Own, Honest: failing, Uploads: failing, Attacks: []defence{{Outlived: 1}}}, ""},
		{outcome{Variant: server.Ours, Honest: failing, Uploads: fine, Downloads: fine}, "honest clients: 1 of 10 requests failed; the first: EOF"},
		{outcome{Variant: server.Ours, Honest: fine, Uploads: fine}, "slow downloads: 0 of 0"},
		{outcome{Variant: server.Ours, Honest: fine, Uploads: fine, Downloads: fine, Attacks: []defence{{Case: "h1-idle", Attackers: 2, Early: 1, Past: stats.Summary{Min: -7}}}}, "h1-idle: 1 of 2 were cut before their limit, by up to 7 ms"},
		{outcome{Variant: server.Ours, Honest: fine, Uploads: fine, Downloads: fine, Attacks: []defence{{Case: "tcp-silence", Attackers: 2, Outlived: 2}}}, "tcp-silence: 2 of 2 outlived their limit by more than 3s"},
		{outcome{Variant: server.Ours, Honest: fine, Uploads: fine, Downloads: fine, Attacks: []defence{{Case: "h1-idle", Attackers: 2, Refused: 1, Why: "EOF"}}}, "h1-idle: 1 of 2 could not attack; the first: EOF"},
	} {
		r := verdict(c.o)
		got := strings.Join(r.Faults, "; ")
		if r.Passed != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("passed: %v, faults: %q; want %q", r.Passed, got, c.want)
		}
	}
}

func TestDefend(t *testing.T) {
	cut := func(after float64) slow.Result { return slow.Result{Outcome: slow.Ended, After: after} }
	got := defend([]slow.Result{
		cut(1.9), cut(2.01), cut(3), cut(6.5), cut(0), {Outcome: slow.Held, After: 7}, {Outcome: slow.Refused, Why: "EOF"},
	}, 2*time.Second, 2500*time.Millisecond, 3*time.Second)
	got.pasts = nil
	want := defence{Attackers: 7, Cut: 5, Early: 1, Past: stats.Summary{Median: 250, Min: -100, Max: 4000}, Outlived: 2, Holding: 1, Refused: 1, Why: "EOF"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestSpan: every case that attackers use has a limit that the servers here have.
func TestSpan(t *testing.T) {
	l := Limits{Header: 2 * time.Second, Body: 3 * time.Second, Rate: 240, Write: 4 * time.Second, WriteRate: 24_000, Grace: 5 * time.Second, KeepAlive: 6 * time.Second}
	for _, name := range Servers() {
		c := Config{Server: name, Limits: l}
		if n := len(c.cases()); n < 15 {
			t.Errorf("%s: %d cases", name, n)
		}
		for _, k := range c.cases() {
			least, most := c.span(k)
			if least <= 0 || least > most {
				t.Errorf("%s, %s: from %v to %v", name, k.Name, least, most)
			}
		}
	}
}

func TestMissed(t *testing.T) {
	c := clients{latency: spread.New()}
	c.done(time.Now(), nil)
	c.miss(3)
	if s := c.served(); s.SuccessRate != 1 || s.ServedRate != 0.25 {
		t.Errorf("got %+v", s)
	}
}

func TestUnsent(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000
   1: 0100007F:1F90 0100007F:8001 01 00000064:00000000 00:00000000 00000000
   2: 0100007F:1F90 0100007F:8002 04 00000100:00000000 00:00000000 00000000
   3: 0100007F:1F90 0100007F:8003 04 00000000:00000000 00:00000000 00000000
   4: 0100007F:1F90 0100007F:8004 0B 00000010:00000000 00:00000000 00000000
   5: 0100007F:8002 0100007F:1F90 04 00000100:00000000 00:00000000 00000000
`
	if got, want := countSockets([]byte(table), 8080), (sockets{1, 2, 0x110}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
