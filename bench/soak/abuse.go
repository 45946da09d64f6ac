package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/cpu"
)

// An abuse is what a hostile client does, to make a server work.
type abuse struct {
	name    string
	victims []string // the kinds of server to which it is done
	unit    string   // what it costs is told for each of these
	attack  func(kind, address string) (units int, err error)
}

var abuses = []abuse{
	{"floods with bytes", []string{"idlenet", "idlegnet"}, "byte", flood(string(rune(noise)))},
	{"floods with beats of one byte", []string{"idlenet", "idlegnet"}, "byte", flood(string(rune(beat)))},
	{"floods with pipelined requests", []string{"idlehttp"}, "byte", flood(get(pathPage))},
	{"sends one byte at a time", []string{"idlenet", "idlegnet", "idlehttp"}, "byte", drip},
	{"opens and closes at once", []string{"idlenet", "idlegnet", "idlehttp"}, "connection", churn},
}

// The variants of a victim.
const (
	bare = "bare"
	ours = "ours"
)

// runAbuse measures what each abuse costs each kind of server, with timeouts and
// without, in turns. Each server is a process of its own, so that its CPU time
// is known.
func runAbuse(ctx context.Context, cfg config, stderr io.Writer) (*abuseReport, error) {
	rep := newAbuseReport(cfg)
	for _, a := range abuses {
		for _, kind := range a.victims {
			if cfg.progress {
				fmt.Fprintf(stderr, "soak: a client of %s %s\n", kind, a.name)
			}
			row, err := a.measure(ctx, kind, cfg.rounds)
			if err != nil {
				return nil, fmt.Errorf("%s, a client that %s: %w", kind, a.name, err)
			}
			rep.Rows = append(rep.Rows, row)
		}
	}
	return rep, nil
}

// measure does the abuse to both variants of a kind of server.
func (a *abuse) measure(ctx context.Context, kind string, rounds int) (abuseRow, error) {
	var both []*victim
	defer func() {
		for _, v := range both {
			v.stop()
		}
	}()
	for _, variant := range []string{bare, ours} {
		v, err := startVictim(kind, variant)
		if err != nil {
			return abuseRow{}, err
		}
		both = append(both, v)
	}
	for round := -1; round < rounds; round++ { // the first one warms up
		for _, i := range rand.Perm(len(both)) {
			if err := ctx.Err(); err != nil {
				return abuseRow{}, err
			}
			if err := both[i].suffer(a, round >= 0); err != nil {
				return abuseRow{}, fmt.Errorf("%s: %w", both[i].variant, err)
			}
		}
	}
	return newAbuseRow(a, kind, both[0].cost, both[1].cost), nil
}

// A victim is a server process.
type victim struct {
	kind, variant string
	cmd           *exec.Cmd
	life          io.Closer // the process ends when this is closed
	address       string
	cost          []float64 // ns of CPU time for each unit, by round
}

func startVictim(kind, variant string) (*victim, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, victimCommand, kind, variant)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	cmd.Stderr = os.Stderr
	life, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting a server: %w", err)
	}
	v := &victim{kind: kind, variant: variant, cmd: cmd, life: life}
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		v.stop()
		return nil, fmt.Errorf("a server did not start: %w", err)
	}
	v.address = strings.TrimSpace(address)
	return v, nil
}

// suffer has the abuse done to it, and notes what it cost if that counts.
func (v *victim) suffer(a *abuse, counts bool) error {
	before, err := cpu.Time(v.cmd.Process.Pid)
	if err != nil {
		return err
	}
	n, err := a.attack(v.kind, v.address)
	if err != nil {
		return err
	}
	after := before
	for range settleTries {
		time.Sleep(settleTime)
		if after, err = cpu.Time(v.cmd.Process.Pid); err != nil {
			return err
		}
		if after > before {
			break
		}
	}
	if after <= before {
		return fmt.Errorf("it did not run within %v", settleTries*settleTime)
	}
	if counts {
		v.cost = append(v.cost, float64(after-before)/float64(n))
	}
	return nil
}

// settleTime is how long after an abuse its work is waited for. It is the same
// for both, and what runs without any is next to nothing.
const settleTime = 50 * time.Millisecond

// settleTries is how often a server is waited for that a busy machine has not
// let run at all.
const settleTries = 100

func (v *victim) stop() {
	v.life.Close()
	v.cmd.Wait()
}
