package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// This file is what others ask a fleet.

// Who asks where clients are. It asks one directory first, and all if that one is silent,
// as it is if its node hangs. Clients that are nowhere are missing from the answer.
func Who(ctx context.Context, nc *nats.Conn, clients ...string) (map[string]Place, error) {
	for _, subject := range []string{subjectWho, subjectWhoAll, subjectWhoAll} {
		try, cancel := context.WithTimeout(ctx, leaseTTL/10)
		answers, err := request[map[string]Place](try, nc, subject, clients, 1)
		cancel()
		if err != nil || len(answers) > 0 {
			return slices.Concat(answers, []map[string]Place{nil})[0], err
		}
	}
	return nil, errors.New("no directory answers; is the fleet running, and the engine there?")
}

// WhoOf asks the directory of one node.
func WhoOf(ctx context.Context, nc *nats.Conn, node string, clients []string) (map[string]Place, error) {
	answers, err := request[map[string]Place](ctx, nc, subjectWhoOf+node, clients, 1)
	if err == nil && len(answers) == 0 {
		err = fmt.Errorf("the directory of %s does not answer", node)
	}
	if err != nil {
		return nil, err
	}
	return answers[0], nil
}

// States asks all nodes what they have, and returns when want of them have answered, or wait
// has passed.
func States(ctx context.Context, nc *nats.Conn, want int, wait time.Duration) ([]State, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	all, err := request[State](ctx, nc, subjectState, nil, want)
	slices.SortFunc(all, func(a, b State) int { return strings.Compare(a.Node, b.Node) })
	return all, err
}

// Drain asks a node to empty itself.
func Drain(ctx context.Context, nc *nats.Conn, node string, over time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	answers, err := request[string](ctx, nc, subjectDrain+node, Duration(over), 1)
	switch {
	case err != nil:
		return err
	case len(answers) == 0:
		return fmt.Errorf("%s does not answer", node)
	case answers[0] != "":
		return fmt.Errorf("%s: %s", node, answers[0])
	}
	return nil
}

// SetLimits changes limits, such as idle=30s, and returns what want nodes say to that within
// a few seconds.
func SetLimits(ctx context.Context, nc *nats.Conn, want int, settings ...string) ([]Verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	_, control, err := Buckets(ctx, js)
	if err != nil {
		return nil, err
	}
	text, err := amend(ctx, nc, settings)
	if err != nil {
		return nil, err
	}
	revision := uint64(0)
	if e, err := control.Get(ctx, keyLimits); err == nil {
		revision = e.Revision()
	} else if !errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, err
	}
	sub, err := nc.SubscribeSync(subjectLimits)
	if err != nil {
		return nil, err
	}
	defer sub.Unsubscribe()
	if revision, err = control.Update(ctx, keyLimits, text, revision); err != nil {
		return nil, err
	}
	var all []Verdict
	for len(all) < want {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			break // those that have answered in time
		}
		var v Verdict
		if json.Unmarshal(m.Data, &v) == nil && v.Revision == revision {
			all = append(all, v)
		}
	}
	slices.SortFunc(all, func(a, b Verdict) int { return strings.Compare(a.Node, b.Node) })
	return all, nil
}

// amend returns the limits that hold, with some of them changed. It does not check them: the
// nodes do.
func amend(ctx context.Context, nc *nats.Conn, settings []string) ([]byte, error) {
	states, err := States(ctx, nc, 1, time.Second)
	if err != nil {
		return nil, err
	} else if len(states) == 0 {
		return nil, errors.New("no node answers; is the fleet running?")
	}
	all := map[string]any{}
	text, _ := json.Marshal(states[0].Limits.Limits)
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	for _, s := range settings {
		name, value, ok := strings.Cut(s, "=")
		if !ok {
			return nil, fmt.Errorf("%q is not like idle=30s", s)
		}
		all[name] = value
	}
	return json.Marshal(all)
}
