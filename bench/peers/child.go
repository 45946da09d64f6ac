package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/machine"
	"github.com/idlewheel/idlewheel/bench/peers/contender"
)

// Every turn is run by a process of its own, so that one that hangs, crashes or
// eats all memory harms no other, and each begins with an empty heap.

const (
	// turnEnv tells a child process which turn it is to run.
	turnEnv = "IDLEWHEEL_PEERS_TURN"

	// outcomePrefix begins the line with the outcome. There may be others: some
	// contenders print.
	outcomePrefix = "outcome "
)

// order is what a child is told.
type order struct {
	Workload  string
	Contender string
	Conns     int
	Scale     scale
}

// serve runs the turn that a child has been told to.
func serve(text string, stdout io.Writer) error {
	var ord order
	if err := json.Unmarshal([]byte(text), &ord); err != nil {
		return fmt.Errorf("%s is %q: %w", turnEnv, text, err)
	}
	kind, ok := contender.Find(ord.Contender)
	if !ok {
		return fmt.Errorf("no contender %q", ord.Contender)
	}
	all := workloads(ord.Scale)
	i := slices.IndexFunc(all, func(w workload) bool { return w.name == ord.Workload })
	if i < 0 {
		return fmt.Errorf("no workload %q", ord.Workload)
	}
	o, err := all[i].run(turn{kind: kind, conns: ord.Conns, scale: ord.Scale})
	if err != nil {
		return err
	}
	line, err := json.Marshal(o)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%s%s\n", outcomePrefix, line)
	return err
}

// delegate has a child run a turn, and returns why there is no outcome if there
// is none.
func delegate(ctx context.Context, ord order) (outcome, error) {
	text, err := json.Marshal(ord)
	if err != nil {
		return outcome{}, err
	}
	self, err := os.Executable()
	if err != nil {
		return outcome{}, fmt.Errorf("finding this program, to start it again: %w", err)
	}
	limited, cancel := context.WithTimeout(ctx, ord.Scale.Limit)
	defer cancel()
	cmd := exec.CommandContext(limited, self)
	cmd.Env = append(os.Environ(), turnEnv+"="+string(text))
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = runWatched(cmd)
	switch {
	case ctx.Err() != nil:
		return outcome{}, ctx.Err()
	case limited.Err() != nil:
		return outcome{}, fmt.Errorf("still running after %v", ord.Scale.Limit)
	case err != nil:
		return outcome{}, fmt.Errorf("%w: %s", err, firstLine(&stderr))
	}
	return findOutcome(&stdout)
}

// runWatched runs a process, and kills it when it takes more memory than it may.
func runWatched(cmd *exec.Cmd) error {
	most := machine.FreeMemory() / 10 * 7
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	look := time.NewTicker(250 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case <-look.C:
			if used := resident(cmd.Process.Pid); most > 0 && used > most {
				_ = cmd.Process.Kill() // fails only if it has ended
				<-ended
				return fmt.Errorf("took %d MiB of memory, more than 70 %% of what is free", used>>20)
			}
		}
	}
}

func findOutcome(stdout io.Reader) (o outcome, err error) {
	lines := bufio.NewReader(stdout)
	for {
		line, err := lines.ReadString('\n')
		if text, ok := strings.CutPrefix(line, outcomePrefix); ok {
			err := json.Unmarshal([]byte(text), &o)
			return o, err
		}
		if err != nil {
			return o, errors.New("the process ended without an outcome")
		}
	}
}

// firstLine returns what a process had to say, in short.
func firstLine(stderr *bytes.Buffer) string {
	line, _, _ := strings.Cut(strings.TrimSpace(stderr.String()), "\n")
	return cmp.Or(strings.TrimPrefix(line, "peers: "), "it said nothing")
}
