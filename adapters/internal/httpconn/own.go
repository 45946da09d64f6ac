package httpconn

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/idle"
)

// ownPhases are the phases of requests that have limits of their own.
type ownPhases struct {
	// mu is held while the terms are replaced, and while a request gets limits of its own. So a
	// phase is made from the terms that are in force, and isn't entered after the end of the request:
	//
	//	handler: SetLimits: locks, sets limited, enters the phase, unlocks
	//	server:  transition to the end of the request: sees limited, locks, unlocks
	//	server:  enters another phase
	mu sync.Mutex

	made map[ownLimits]*idle.Phase
}

// ownLimits are the own limits of a request, in HTTP/1 or on a stream of HTTP/2.
type ownLimits struct {
	httplimits.RequestLimits
	phase Phase // Request or stream; they replace its limits
}

// maxOwnPhases is how many phases are kept. If there are more different limits, for
// example because a server computes them from the length of a file, some phases are
// made again and again. SetTimeouts does not reach a request whose phase was dropped.
const maxOwnPhases = 256

// SetLimits gives the request that is being handled on a connection limits of its own,
// until its end. nc is the connection or a wrapper. number says which of its requests it must be, if not 0. pkg is the adapter.
func SetLimits(pkg string, nc net.Conn, number uint64, own httplimits.RequestLimits) error {
	c := Unwrap(nc)
	if c == nil || c.listener.pkg != pkg {
		return fmt.Errorf("%s: SetLimits: the request did not arrive on a listener of this package, or its %T hides the connection", pkg, nc)
	}
	if err := c.setLimits(number, own); err != nil {
		return fmt.Errorf("%s: SetLimits: %w", pkg, err)
	}
	return nil
}

func (c *Conn) setLimits(number uint64, own httplimits.RequestLimits) error {
	l := c.listener
	l.own.mu.Lock()
	defer l.own.mu.Unlock()
	phase, err := l.ownPhase(ownLimits{own, Request})
	if err != nil {
		return err
	}
	for {
		was := c.state.Load()
		switch {
		case was&^flags == hijacked:
			return errors.New("the connection was hijacked; use Watch")
		case was&closed != 0 || was&^flags != request || number != 0 && uint32(number) != c.requests.Load():
			return errors.New("the request has ended; call SetLimits in its handler")
		}
		if c.state.CompareAndSwap(was, was|limited) {
			c.Conn.Enter(phase)
			return nil
		}
	}
}

// await waits until a SetLimits that is under way has entered its phase.
func (o *ownPhases) await() {
	o.mu.Lock()
	defer o.mu.Unlock()
}

// ownPhase returns the phase for requests with the given limits. l.own.mu must be
// held.
func (l *Listener) ownPhase(own ownLimits) (*idle.Phase, error) {
	if phase := l.own.made[own]; phase != nil {
		return phase, nil
	}
	policy, err := l.ownPolicy(l.now.Load(), own)
	if err != nil {
		return nil, err
	}
	phase, err := l.trackerOf(own.phase).Phase(policy)
	if err != nil {
		return nil, named("", err)
	}
	if l.own.made == nil {
		l.own.made = map[ownLimits]*idle.Phase{}
	}
	if len(l.own.made) == maxOwnPhases {
		for any := range l.own.made {
			delete(l.own.made, any)
			break
		}
	}
	l.own.made[own] = phase
	return phase, nil
}

// ownPolicy returns the policy of a request with the given limits under the terms.
func (l *Listener) ownPolicy(to *terms, own ownLimits) (idle.Policy, error) {
	t := to.given
	t.BodyTimeout = cmp.Or(own.BodyTimeout, t.BodyTimeout)
	t.BodyRate = cmp.Or(own.BodyRate, t.BodyRate)
	t.HandlerTimeout = cmp.Or(own.HandlerTimeout, t.HandlerTimeout)
	t.WriteTimeout = cmp.Or(own.WriteTimeout, t.WriteTimeout)
	t.WriteRate = cmp.Or(own.WriteRate, t.WriteRate)
	if err := complete(&t, "the listener's"); err != nil {
		return idle.Policy{}, err
	}
	if err := checkDurations(&t, l.options.Tick); err != nil {
		return idle.Policy{}, err
	}
	policies, _ := assignLimits(&t)
	return policies[own.phase], nil
}
