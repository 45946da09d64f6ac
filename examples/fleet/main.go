// Command fleet runs gateways as one fleet, on one machine: a NATS server, the gateways as processes of
// their own, and clients that are compared with what the fleet says. Package node is the
// gateway, and the part to copy.
//
//	go -C examples/fleet run .                            # until Ctrl-C
//	go -C examples/fleet run . -kill -drain -outage 1m    # a crash, a rollout, a minute without NATS
//
// It exits with 0 if everything held. Otherwise it says what didn't, and exits with 1.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/idlewheel/idlewheel/examples/fleet/node"
)

// options are the flags.
type options struct {
	nats                     string
	replicas, nodes, clients int
	port, ops                int
	over, outage             time.Duration
	kill, drain, json        bool
}

// nodeEnv holds the node.Config, as JSON, of a process that is a node.
const nodeEnv = "IDLEWHEEL_FLEET_NODE"

func main() {
	log.SetFlags(log.Ltime)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt) // which reaches the nodes too; they wait for their parent
	defer stop()
	var o options
	var err error
	if config := os.Getenv(nodeEnv); config != "" {
		err = runNode(config)
	} else if o, err = parse(os.Args[1:]); err == nil {
		err = simulate(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
}

// runNode runs a node until it's drained, or the process that has started it is gone.
func runNode(config string) error {
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	var c node.Config
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		return fmt.Errorf("%s: %w", nodeEnv, err)
	}
	return node.Run(c)
}

// parse returns the options that the arguments set.
func parse(args []string) (o options, err error) {
	f := flag.NewFlagSet("fleet", flag.ExitOnError)
	f.StringVar(&o.nats, "nats", "", "the `URLs` of NATS servers, 2.11 or later with JetStream; the default is an embedded one")
	f.IntVar(&o.replicas, "replicas", 1, "how many NATS servers store each bucket")
	f.IntVar(&o.nodes, "nodes", 3, "how many gateways there are")
	f.IntVar(&o.clients, "clients", 3000, "how many clients there are; each needs a descriptor of this process")
	f.IntVar(&o.port, "port", 9011, "the port of the first gateway; the others have the next ones")
	f.IntVar(&o.ops, "ops", 6071, "the port of the first gateway's page and /metrics; the others have the next ones")
	f.DurationVar(&o.over, "over", 20*time.Second, "how long a drain takes")
	f.BoolVar(&o.kill, "kill", false, "kill a gateway")
	f.BoolVar(&o.drain, "drain", false, "drain a gateway, as for a rollout")
	f.DurationVar(&o.outage, "outage", 0, "stop NATS for this long")
	f.BoolVar(&o.json, "json", false, "print only the result")
	f.Parse(args)
	if f.NArg() > 0 {
		return o, fmt.Errorf("%q is not a flag; see -h", f.Arg(0))
	}
	return o, o.check()
}

func (o options) check() error {
	for name, n := range map[string]int{"replicas": o.replicas, "nodes": o.nodes, "clients": o.clients, "port": o.port, "ops": o.ops} {
		if n < 1 {
			return fmt.Errorf("-%s is %d; it must be at least 1", name, n)
		}
	}
	switch {
	case o.outage < 0:
		return fmt.Errorf("-outage is %v; it must not be negative", o.outage)
	case o.over <= 0:
		return fmt.Errorf("-over is %v; it must be more than 0", o.over)
	case o.outage > 0 && o.nats != "":
		return fmt.Errorf("-outage is %v and -nats is %q; only the embedded server can be stopped", o.outage, o.nats)
	case (o.kill || o.drain) && o.nodes < 2:
		return fmt.Errorf("-nodes is %d; -kill and -drain need 2, because clients have to go somewhere", o.nodes)
	}
	return nil
}
