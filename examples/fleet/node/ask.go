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
)

// This file is what others ask a fleet.

// Who asks where clients are. It asks one directory first, and all if that one is silent,
// as it is if its node hangs. Clients that are nowhere are missing from the answer.
func Who(ctx context.Context, nc *nats.Conn, clients ...string) (map[string]Place, error) {
	for _, subject := range []string{subjectWho, subjectWhoAll, subjectWhoAll} {
		if places, err := ask[map[string]Place](ctx, nc, subject, clients, leaseTTL/10); err == nil {
			return places, nil
		}
	}
	return nil, errors.New("no directory answers; is the fleet running, and the engine there?")
}

// WhoOf asks the directory of one node.
func WhoOf(ctx context.Context, nc *nats.Conn, node string, clients []string) (map[string]Place, error) {
	return ask[map[string]Place](ctx, nc, subjectWhoOf+node, clients, engineTimeout)
}

// Drain asks a node to empty itself.
func Drain(ctx context.Context, nc *nats.Conn, node string, over time.Duration) error {
	refusal, err := ask[string](ctx, nc, subjectDrain+node, Duration(over), engineTimeout)
	if err == nil && refusal != "" {
		err = errors.New(refusal)
	}
	return err
}

// ask asks something, and returns the first answer.
func ask[A any](ctx context.Context, nc *nats.Conn, subject string, question any, wait time.Duration) (a A, err error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	answers, err := request[A](ctx, nc, subject, question, 1)
	if err != nil {
		return a, err
	} else if len(answers) == 0 {
		return a, fmt.Errorf("no answer to %s within %v", subject, wait)
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

// request asks something, and returns all answers until there are want of them or ctx is
// done. It ignores those that cannot be parsed.
func request[A any](ctx context.Context, nc *nats.Conn, subject string, question any, want int) (answers []A, err error) {
	text, err := json.Marshal(question)
	if err != nil {
		return nil, err
	}
	inbox := nats.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	defer sub.Unsubscribe()
	if err := nc.PublishRequest(subject, inbox, text); err != nil {
		return nil, err
	}
	for len(answers) < want {
		m, err := sub.NextMsgWithContext(ctx)
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrNoResponders) {
			break
		} else if err != nil {
			return answers, err
		}
		var a A
		if json.Unmarshal(m.Data, &a) == nil {
			answers = append(answers, a)
		}
	}
	return answers, nil
}
