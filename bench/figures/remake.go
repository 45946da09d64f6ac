package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/idlewheel/idlewheel/bench/internal/machine"
)

// A measurement is a program that makes results.
type measurement struct {
	args  []string // of the go command, with DIR for the folder of the results
	quick []string
	file  string // for its standard output
}

var ofRestarts = []measurement{
	{strings.Fields("run ./restart -json"), strings.Fields("run ./restart -restarts 2 -json"), "restart.json"},
	{strings.Fields("run ./restart -own -json"), strings.Fields("run ./restart -own -restarts 2 -json"), "restart-own.json"},
}

var ofAll = append([]measurement{
	{
		strings.Fields("run ./peers -rounds 3 -json -html DIR/peers.html -svg DIR/cost.svg"),
		strings.Fields("run ./peers -quick -json -html DIR/peers.html -svg DIR/cost.svg"), "peers.json",
	},
	{
		strings.Fields("run ./e2e -server all -duration 150ms -json -html DIR/e2e.html"),
		strings.Fields("run ./e2e -server all -rounds 10 -duration 50ms -silent 200 -json -html DIR/e2e.html"), "e2e.json",
	},
	{
		strings.Fields("run ./loadtest -json"),
		strings.Fields("run ./loadtest -conns 20000 -duration 4s -idle 1s -heartbeat 1s -json"), "loadtest.json",
	},
	{
		strings.Fields("-C .. test ./idle ./adapters/idlenet -run ^$ -bench TouchHot|TouchAsleep|Overhead -count 3"),
		strings.Fields("-C .. test ./idle ./adapters/idlenet -run ^$ -bench TouchHot|TouchAsleep|Overhead -count 3 -benchtime 10ms"), "benchmarks.txt",
	},
}, ofRestarts...)

// remake makes all results again, or only those of restarts. They are moved to dir when all are
// there, so they are of one commit, and a failure leaves the old ones.
func remake(ctx context.Context, dir string, only, quick bool, stderr io.Writer) error {
	here := machine.Take(ctx)
	if here.Modified && !quick {
		return errors.New("there are changes that aren't committed; results have to be of a commit")
	}
	temp, err := os.MkdirTemp("", "results")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	measurements := ofAll
	if only {
		measurements = ofRestarts
	}
	for i, m := range measurements {
		args := m.args
		if quick {
			args = m.quick
		}
		fmt.Fprintf(stderr, "%d of %d: go %s\n", i+1, len(measurements), strings.Join(args, " "))
		if err := measure(ctx, args, temp, m.file, stderr); err != nil {
			return err
		}
	}
	if only {
		return move(temp, dir)
	}
	now := measured{Commit: here.Commit, Date: here.Date}
	if now.Declarations, err = declarations(ctx); err != nil {
		return err
	}
	b, err := json.Marshal(now)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(temp, "measured.json"), append(b, '\n'), 0o644); err != nil {
		return err
	}
	return move(temp, dir)
}

// measure runs a program, and writes its output to a file.
func measure(ctx context.Context, args []string, dir, file string, stderr io.Writer) error {
	var run []string
	for _, arg := range args {
		run = append(run, strings.Replace(arg, "DIR", dir, 1))
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", run...)
	cmd.Stdout, cmd.Stderr = &out, stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return os.WriteFile(filepath.Join(dir, file), out.Bytes(), 0o644)
}

// move copies the files, because the folders may be on two file systems.
func move(from, to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	files, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(from, f.Name()))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, f.Name()), b, 0o644); err != nil {
			return err
		}
	}
	return nil
}
