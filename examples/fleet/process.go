package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"os/signal"

	"github.com/idlewheel/idlewheel/examples/fleet/node"
)

// roleEnv tells a child of this program what it is: "node" or "crowd".
const roleEnv = "IDLEWHEEL_FLEET_ROLE"

// playRole is the main function of a child. In the parent it returns at once.
func playRole() {
	role := os.Getenv(roleEnv)
	if role == "" {
		return
	}
	log.SetFlags(log.Ltime)
	signal.Ignore(os.Interrupt) // Ctrl-C reaches parent and children alike, and the parent ends them
	in := json.NewDecoder(os.Stdin)
	var err error
	switch role {
	case "node":
		var c node.Config
		if err = in.Decode(&c); err == nil {
			go func() {
				in.Decode(new(any)) // returns when the parent is gone
				os.Exit(1)
			}()
			err = node.Run(c)
		}
	case "crowd":
		err = runCrowd(in, json.NewEncoder(os.Stdout))
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", role, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// A process is a child. It ends when its stdin is closed.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out io.Reader
}

// start starts this program as a child, and gives it an order.
func start(role string, order any) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(self)}
	p.cmd.Env = append(os.Environ(), roleEnv+"="+role, "GNET_LOGGING_LEVEL=1") // warnings
	p.cmd.Stderr, p.cmd.Stdout = os.Stderr, os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if role == "crowd" { // it has something to say
		p.cmd.Stdout = nil
		if p.out, err = p.cmd.StdoutPipe(); err != nil {
			return nil, err
		}
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	return p, json.NewEncoder(p.in).Encode(order)
}
