package attack

import (
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/server"
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
		{outcome{Variant: server.Ours, Honest: fine, Uploads: fine, Downloads: fine, Attacks: []defence{{Kind: "brink", Attackers: 2, Early: 1, Past: stats.Summary{Min: -7}}}}, "brink: 1 of 2 were cut before their limit, by up to 7 ms"},
		{outcome{Variant: server.Ours, Honest: fine, Uploads: fine, Downloads: fine, Attacks: []defence{{Kind: "connect", Attackers: 2, Outlived: 2}}}, "connect: 2 of 2 outlived their limit by more than 3s"},
	} {
		r := verdict(c.o)
		got := strings.Join(r.Faults, "; ")
		if r.Passed != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("passed: %v, faults: %q; want %q", r.Passed, got, c.want)
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
