package idle

import "time"

// TickFor returns the tick that suits a tracker whose connections are under the given
// policies. It is a 50th of the shortest of their limits, but at least 10 ms
// and at most 100 ms. New uses it for the policy that a tracker starts with. Call it if later
// phases have shorter limits: one that is shorter than a tick is refused, and one of few
// ticks is rounded up by much.
func TickFor(policies ...Policy) time.Duration {
	const finest, coarsest, share = 10 * time.Millisecond, 100 * time.Millisecond, 50
	shortest := coarsest * share
	for _, p := range policies {
		for f := range fields {
			if value := f.value(&p); value > 0 {
				shortest = min(shortest, value)
			}
		}
	}
	return max(shortest/share, finest)
}
