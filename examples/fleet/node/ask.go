package node

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idlewheel/idlewheel/examples/fleet/directory"
)

// Who asks where clients are. All directories of their partitions answer, and the first answer
// counts. Clients that are nowhere are missing from it. If no directory of one of the partitions
// answers within a second, Who returns an error and no places: then nothing is known.
func (f *Fleet) Who(ctx context.Context, clients ...string) (map[string]directory.Place, error) {
	questions, all := map[int][]string{}, map[string]directory.Place{}
	for _, c := range clients {
		p := directory.Partition(c, f.Partitions)
		questions[p] = append(questions[p], c)
	}
	for partition, clients := range questions {
		places, err := map[string]directory.Place(nil), error(nil)
		for range 3 { // a question or an answer may be lost
			if places, err = ask[map[string]directory.Place](ctx, f, numbered(subjectWho, partition), clients, leaseTTL/10); err == nil {
				break
			}
		}
		if err != nil {
			return nil, fmt.Errorf("no directory of partition %d of %d answers; is the fleet running, and the engine there?", partition, f.Partitions)
		}
		maps.Copy(all, places)
	}
	return all, nil
}

// WhoOf asks the directories of one process. It says nothing of clients of other partitions.
func (f *Fleet) WhoOf(ctx context.Context, node string, clients []string) (map[string]directory.Place, error) {
	return ask[map[string]directory.Place](ctx, f, subjectWhoOf+node, clients, engineTimeout)
}

// Drain asks a node to empty itself over the given time. The function that it returns waits
// for the node's last word: how many clients were left when the drain was over. The word is
// lost if the engine is away at that moment, and never comes if the node dies.
func (f *Fleet) Drain(ctx context.Context, node string, over time.Duration) (lastWord func(time.Duration) (left int, err error), err error) {
	sub, err := f.SubscribeSync(f.at(subjectDrained + node))
	if err != nil {
		return nil, err
	}
	refusal, err := ask[string](ctx, f, subjectDrain+node, Duration(over), leaseTTL) // a node that takes longer has lost its lease
	if err == nil && refusal != "" {
		err = errors.New(refusal)
	}
	return func(wait time.Duration) (left int, err error) {
		m, err := sub.NextMsg(wait)
		if err != nil {
			return 0, err
		}
		return left, json.Unmarshal(m.Data, &left)
	}, err
}

// Holds reports whether a node holds its lease, and the epoch of that.
func (f *Fleet) Holds(ctx context.Context, node string) (epoch uint64, holds bool, err error) {
	s, err := f.leases(ctx)
	if err != nil {
		return 0, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()
	e, err := s.Get(ctx, node)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return 0, false, nil
	}
	var l Lease
	if err == nil {
		err = json.Unmarshal(e.Value(), &l)
	}
	if err != nil {
		return 0, false, err
	}
	return cmp.Or(l.Epoch, s.Number(e.Revision())), true, nil
}

// ask asks something, and returns the first answer.
func ask[A any](ctx context.Context, f *Fleet, subject string, question any, wait time.Duration) (a A, err error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	answers, err := request[A](ctx, f, subject, question, 1)
	if err != nil {
		return a, err
	} else if len(answers) == 0 {
		return a, fmt.Errorf("no answer to %s within %v", subject, wait)
	}
	return answers[0], nil
}

// States asks all nodes what they have, and returns when want of them have answered, or wait
// has passed.
func (f *Fleet) States(ctx context.Context, want int, wait time.Duration) ([]State, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	all, err := request[State](ctx, f, subjectState, nil, want)
	slices.SortFunc(all, func(a, b State) int { return strings.Compare(a.Node, b.Node) })
	return all, err
}

// request asks something, and returns all answers until there are want of them or ctx is
// done. It ignores those that cannot be parsed.
func request[A any](ctx context.Context, f *Fleet, subject string, question any, want int) (answers []A, err error) {
	text, err := json.Marshal(question)
	if err != nil {
		return nil, err
	}
	inbox := nats.NewInbox()
	sub, err := f.SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	defer sub.Unsubscribe()
	if err := f.PublishRequest(f.at(subject), inbox, text); err != nil {
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
