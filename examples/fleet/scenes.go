package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"os"
	"syscall"
	"time"
)

// simulate runs a fleet, prints the result, and returns what didn't hold.
func simulate(ctx context.Context, o options) error {
	if o.json {
		log.SetOutput(io.Discard)
	}
	f, err := startFleet(ctx, o)
	if err != nil {
		return err
	}
	defer f.close()
	err = f.play(ctx)
	moved, dropped, lastDrop := f.crowd.events()
	if errors.Is(err, context.Canceled) {
		err = errors.New("interrupted before the end")
	} else if err == nil && dropped != f.meant {
		err = fmt.Errorf("%d connections were dropped, and %d were meant to be; the last one was %s", dropped, f.meant, lastDrop)
	}
	f.result["moved"], f.result["dropped"], f.result["meant"], f.result["held"] = moved, dropped, f.meant, err == nil
	return errors.Join(err, json.NewEncoder(os.Stdout).Encode(f.result))
}

// play plays the scenes that were asked for.
func (f *fleet) play(ctx context.Context) error {
	for _, scene := range []struct {
		wanted bool
		name   string
		play   func(context.Context) (said string, err error)
	}{{true, "limits", f.playLimits}, {f.kill, "kill", f.playKill}, {f.drain, "drain", f.playDrain}, {f.outage > 0, "outage", f.playOutage}} {
		if !scene.wanted {
			continue
		}
		said, err := scene.play(ctx)
		if err == nil {
			_, err = until(ctx, f.ready)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", scene.name, err)
		}
		log.Print(said)
	}
	if !(f.kill || f.drain || f.outage > 0 || f.json) {
		log.Print("it runs until Ctrl-C")
		<-ctx.Done()
	}
	_, err := until(context.WithoutCancel(ctx), f.allFound)
	return err
}

// playLimits sets other limits. Leases say which ones a node applies.
func (f *fleet) playLimits(ctx context.Context) (said string, err error) {
	f.limits.Idle = time.Minute
	if err := f.view.SetLimits(ctx, f.limits); err != nil {
		return "", err
	}
	took, err := until(ctx, f.ready)
	f.result["limits_s"] = took.Seconds()
	return fmt.Sprintf("new limits applied on all nodes after %.2f s", took.Seconds()), err
}

// emptied returns "" when no client is at a node any more, and all are found elsewhere.
func (f *fleet) emptied(node string) func(context.Context) string {
	return func(ctx context.Context) string {
		if left := len(f.crowd.at(node)); left > 0 {
			return fmt.Sprintf("%s still has %d clients", node, left)
		}
		return f.allFound(ctx)
	}
}

// playKill kills the last node. Its clients have to come back elsewhere, and no others may notice.
func (f *fleet) playKill(ctx context.Context) (said string, err error) {
	name := nodeName(f.nodes - 1)
	clients := len(f.crowd.at(name))
	f.meant += clients
	if err := f.processes[f.nodes-1].Load().Kill(); err != nil {
		return "", err
	}
	took, err := until(ctx, f.emptied(name))
	f.result["kill_s"] = took.Seconds()
	return fmt.Sprintf("%s was killed; its %d clients were found elsewhere after %.1f s", name, clients, took.Seconds()), err
}

// playDrain drains the first node, as a rollout does. No client may lose its connection.
func (f *fleet) playDrain(ctx context.Context) (said string, err error) {
	name, begun := nodeName(0), time.Now()
	clients := len(f.crowd.at(name))
	if err := f.processes[0].Load().Signal(syscall.SIGTERM); err != nil {
		return "", err
	}
	select {
	case state := <-f.ended[0]:
		if !state.Success() {
			return "", fmt.Errorf("%s has ended with %v", name, state)
		}
	case <-time.After(f.over + patience):
		return "", fmt.Errorf("%s hasn't ended after %v", name, f.over+patience)
	case <-ctx.Done():
		return "", ctx.Err()
	}
	took := time.Since(begun)
	f.result["drain_s"] = took.Seconds()
	if took < f.over/2 && clients >= 10 { // few can't show an even rate
		return "", fmt.Errorf("%s was empty after %v, not %v", name, took, f.over)
	}
	_, err = until(ctx, f.emptied(name))
	return fmt.Sprintf("%s was drained; its %d clients have moved within %.1f s", name, clients, took.Seconds()), err
}

// playOutage stops NATS for a while. No connection may end, and nodes have to accept clients: a few
// are cut off, and have to be back before NATS is.
func (f *fleet) playOutage(ctx context.Context) (said string, err error) {
	port, begun := f.server.Addr().(*net.TCPAddr).Port, time.Now()
	f.server.Shutdown()
	f.server.WaitForShutdown()
	for _, i := range rand.Perm(f.clients)[:max(1, f.clients/100)] {
		conn, _ := f.crowd.all[i].connection()
		conn.Close()
		f.meant++
	}
	if _, err := until(ctx, func(context.Context) string { return f.crowd.lacks(f.meant) }); err != nil {
		return "", err
	}
	wait(ctx, f.outage-time.Since(begun))
	if f.server, err = startNATS(f.dir, port); err != nil {
		return "", err
	}
	took, err := until(ctx, f.allFound)
	f.result["outage_s"] = took.Seconds()
	return fmt.Sprintf("NATS was away for %v; all clients were found %.1f s later", f.outage, took.Seconds()), err
}
