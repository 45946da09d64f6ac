// Command fleet runs three gateways as one: a view of all of them, one place to change
// limits, presence, and drains for rollouts. It starts an embedded NATS server, the gateways
// as processes of their own, and 20,000 clients that are compared with what the fleet says.
//
//	go -C examples/fleet run .                    # until Ctrl-C; a page is on http://127.0.0.1:6070
//	go -C examples/fleet run . -kill -drain       # crash a node, and empty one for a rollout; says what was lost
//	go -C examples/fleet run . -json -drain -duration 1m
//
// While it runs, these ask it, or steer it, from another terminal:
//
//	go -C examples/fleet run . who client-17
//	go -C examples/fleet run . -set idle=1m
//	go -C examples/fleet run . -drain node2 -over 20s
//
// A node is also drained by SIGTERM. It is started again when it has ended, however that was.
// -nats URL uses a NATS server that exists. README.md tells how it works, and package node is
// the gateway.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"time"
)

func main() {
	playRole()
	log.SetFlags(log.Ltime)
	if err := command(); err != nil {
		log.Fatal(err)
	}
}

// command does what the flags say.
func command() error {
	var o options
	flag.StringVar(&o.engine, "nats", "", "the `URL` of a NATS server with JetStream; the default is an embedded one, or for commands the one of the fleet that was started last")
	flag.StringVar(&o.fleet, "fleet", "fleet", "the `name` of the fleet; fleets with different names can share a NATS server")
	flag.IntVar(&o.replicas, "replicas", 1, "how many NATS servers of a cluster keep each bucket, if the fleet has to make it")
	flag.IntVar(&o.clients, "clients", 20_000, "how many clients there are")
	flag.IntVar(&o.nodes, "nodes", 3, "how many gateways there are")
	flag.IntVar(&o.partitions, "partitions", 1, "into how many partitions presence is split")
	flag.IntVar(&o.directories, "directories", 0, "how many processes keep the directories; 0 has each gateway keep all")
	flag.StringVar(&o.address, "address", "127.0.0.1:9011", "where the first gateway listens; the others have the next ports")
	flag.StringVar(&o.ops, "ops", "127.0.0.1:6070", "where the page of the fleet is; those of the gateways, and their /metrics, have the next ports; empty for none")
	flag.DurationVar(&o.beat, "beat", 5*time.Second, "how often a client beats")
	flag.DurationVar(&o.over, "over", 20*time.Second, "how long a drain takes")
	flag.DurationVar(&o.duration, "duration", 0, "how long it runs at least; the default is a minute with scenes or -json, and else until Ctrl-C")
	flag.BoolVar(&o.kill, "kill", false, "kill a node")
	flag.BoolVar(&o.drain, "drain", false, "drain a node; with the name of one, that of the fleet that runs")
	flag.BoolVar(&o.wipe, "wipe", false, "have the engine lose all that it has stored")
	flag.BoolVar(&o.neighbor, "neighbor", false, "run a second, smaller fleet on the same engine")
	flag.DurationVar(&o.spread, "spread", 10*time.Second, "how long a node takes to send on clients of which it has too many; 0 for never")
	set := flag.String("set", "", "change `limits` of the fleet that runs, such as idle=30s,write=5s")
	asJSON := flag.Bool("json", false, "print the result only, as an object")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: go run . [flags]\n       go run . [flags] who CLIENT ...\n       go run . [flags] -drain NODE [-over 20s]")
		flag.PrintDefaults()
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	args := flag.Args()
	if o.drain && len(args) > 0 { // -drain NODE; more flags may follow
		flag.CommandLine.Parse(args[1:])
		return drainNode(ctx, o, args[0])
	}
	switch {
	case len(args) > 1 && args[0] == "who":
		return sayWho(ctx, o, args[1:])
	case len(args) > 0:
		flag.Usage()
		return fmt.Errorf("%q is not a command", strings.Join(args, " "))
	case *set != "":
		return setLimits(ctx, o, strings.Split(*set, ","))
	case o.drain && o.nodes < 2:
		return errors.New("-drain needs -nodes 2 or more: clients have to go somewhere")
	case o.partitions < 1 || o.directories < 0:
		return errors.New("-partitions must be at least 1, and -directories at least 0")
	case o.nodes < 1 || o.clients < 1 || o.beat <= 0 || o.over <= 0:
		return errors.New("-nodes, -clients, -beat and -over must be more than 0")
	}
	if o.wipe && o.engine != "" {
		return errors.New("-wipe needs the embedded engine; leave -nats out")
	}
	if o.duration == 0 && (*asJSON || o.kill || o.drain || o.wipe) {
		o.duration = time.Minute
	}
	o.out = log.Printf
	if *asJSON {
		o.out = func(string, ...any) {}
	}
	return simulate(ctx, o, *asJSON)
}

// simulate runs a fleet, and prints the result.
func simulate(ctx context.Context, o options, asJSON bool) error {
	f, err := startFleet(ctx, o)
	if err != nil {
		return err
	}
	defer f.close()
	if err := os.WriteFile(urlFile(), []byte(f.engine), 0o600); err != nil {
		return err
	}
	defer os.Remove(urlFile())
	if o.ops != "" {
		f.servePage()
	}
	o.out("%d nodes run, the engine is %s", o.nodes, f.engine)
	neighbor := make(chan error, 1)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() { neighbor <- f.runNeighbor(ctx) }()
	r, err := f.run(ctx)
	if err != nil {
		return err
	}
	r.print(asJSON)
	if r.Lost > 0 || r.Misplaced > 0 {
		return fmt.Errorf("%d letters are lost, %d clients misplaced: %s", r.Lost, r.Misplaced, r.Example)
	}
	stop()
	return <-neighbor
}
