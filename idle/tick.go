package idle

import "time"

// TickFor returns the tick that suits a tracker whose connections are under the given
// policies: a 50th of their shortest limit or Beats.Least, but at least 10 ms and at most 100 ms. It is
// for trackers whose phases have shorter limits than the policy they start with: a limit
// that is shorter than a tick is refused, and one of few ticks is rounded up by much.
func TickFor(policies ...Policy) time.Duration {
	const finest, coarsest, share = 10 * time.Millisecond, 100 * time.Millisecond, 50
	shortest := coarsest * share
	for _, p := range policies {
		for f := range fields {
			if value := f.value(&p); value > 0 {
				shortest = min(shortest, value)
			}
		}
		if least := p.Beats.Least; least > 0 {
			shortest = min(shortest, least)
		}
	}
	return max(shortest/share, finest)
}
