package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idlewheel/idlewheel/adapters/idlegnet"
	"github.com/idlewheel/idlewheel/idle"
)

// Limits are the entry "limits" of the bucket of control: {"handshake": "5s", "idle": "30s",
// "write": "10s"}. They hold for all clients of all nodes.
type Limits struct {
	Handshake Duration `json:"handshake"` // how long a client may take to say hello
	Idle      Duration `json:"idle"`      // how long one may be silent
	Write     Duration `json:"write"`     // how long one may take nothing
}

// Duration is a time.Duration that is written as in Go.
type Duration time.Duration

func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}

// DefaultLimits hold as long as nobody has set others.
func DefaultLimits() Limits {
	return Limits{Handshake: Duration(5 * time.Second), Idle: Duration(30 * time.Second), Write: Duration(10 * time.Second)}
}

// limitsMost is how many bytes an entry has at most. What is wrong with one goes to the log and
// to whoever asks for the state of a node, so it must not be long.
const limitsMost = 1024

// parseLimits checks all there is to check without a tracker.
func parseLimits(text []byte) (l Limits, err error) {
	if len(text) > limitsMost {
		return l, fmt.Errorf("the entry has %d bytes; limits have at most %d", len(text), limitsMost)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		return l, err
	}
	for name, v := range map[string]Duration{"handshake": l.Handshake, "idle": l.Idle, "write": l.Write} {
		if v <= 0 {
			err = errors.Join(err, fmt.Errorf("%s is %v; it must be more than 0", name, v))
		}
	}
	return l, err
}

// handshake is the policy of a client that has not said hello. One that trickles would extend
// a ReadTimeout. It does not extend a PhaseTimeout.
func (l Limits) handshake() idle.Policy {
	return idle.Policy{Name: "handshake", PhaseTimeout: time.Duration(l.Handshake)}
}

// online is the policy of a client that has.
func (l Limits) online() idle.Policy {
	return idle.Policy{Name: "online", IdleTimeout: time.Duration(l.Idle), WriteTimeout: time.Duration(l.Write)}
}

// A Verdict is what a node says to new limits.
type Verdict struct {
	Node     string `json:"node"`
	Revision uint64 `json:"revision"` // the number of the entry, see Store.Number
	Refused  string `json:"refused,omitempty"`
	Limits   Limits `json:"limits"` // that hold now
}

// control has the clients of a node follow the limits of the fleet.
type control struct {
	node     string
	timeouts *idlegnet.Handler
	online   *idle.Phase

	mu      sync.Mutex // guards what follows
	verdict Verdict
	found   bool // the bucket has limits
}

// see takes an entry of the bucket, or nil after those that the bucket had. The watcher begins
// with the history, so a node that starts after a bad entry has the good one before it.
func (c *control) see(s Store, entry jetstream.KeyValueEntry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if entry == nil {
		if !c.found {
			c.restore(s)
		}
		return
	}
	if entry.Key() != KeyLimits || entry.Operation() != jetstream.KeyValuePut {
		return
	}
	c.found = true
	number := s.Number(entry.Revision())
	if number <= c.verdict.Revision {
		return // seen before the engine was away
	}
	c.verdict.Revision, c.verdict.Refused = number, ""
	l, err := c.apply(entry.Value())
	if err != nil {
		c.verdict.Refused = err.Error()
		log.Printf("%s: the limits stay as they are: %v", c.node, err)
	} else {
		c.verdict.Limits = l
	}
}

// begin notes that the watcher starts over.
func (c *control) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.found = false
}

// restore writes the limits that hold into a bucket without any, if somebody has ever set
// them: the engine has lost them. If another node is faster, its entry stays.
func (c *control) restore(s Store) {
	if c.verdict.Revision == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), engineTimeout)
	defer cancel()
	text, _ := json.Marshal(c.verdict.Limits)
	if _, err := s.Create(ctx, KeyLimits, text); err == nil {
		log.Printf("%s: the engine had lost the limits, and has them again", c.node)
	}
}

// apply changes all limits, or none. The tracker checks a policy when a phase is made of it,
// so the second and third step can no longer fail.
func (c *control) apply(text []byte) (Limits, error) {
	l, err := parseLimits(text)
	if err != nil {
		return l, err
	}
	for _, p := range []idle.Policy{l.handshake(), l.online()} {
		if _, err := c.timeouts.Phase(p); err != nil {
			return l, err
		}
	}
	t := c.timeouts.Tracker()
	return l, errors.Join(t.SetPolicy(l.handshake()), c.online.SetPolicy(l.online()))
}

// last returns the last verdict.
func (c *control) last() Verdict {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.verdict
}
