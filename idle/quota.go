package idle

import (
	"fmt"
	"math"

	"golang.org/x/time/rate"
)

// A Quota limits how many connections come in a time. The zero Quota is no limit.
type Quota struct {
	PerSecond float64
	Burst     int // how many may come at once; by default as many as in a second, at least 1
}

func (q Quota) limiter() *rate.Limiter {
	return rate.NewLimiter(rate.Limit(q.PerSecond), q.burst())
}

func (q Quota) burst() int {
	if q.Burst > 0 {
		return q.Burst
	}
	return int(max(1, min(math.Ceil(q.PerSecond), math.MaxInt32)))
}

func (q Quota) validate(field string) error {
	switch {
	case !(q.PerSecond >= 0) || math.IsInf(q.PerSecond, 0):
		return fmt.Errorf("idle: %s.PerSecond is %v; use 0 for no limit", field, q.PerSecond)
	case q.Burst < 0:
		return fmt.Errorf("idle: %s.Burst is %d; use 0 for a default", field, q.Burst)
	case q.Burst > 0 && q.PerSecond == 0:
		return fmt.Errorf("idle: %s.Burst is %d, but PerSecond is 0; set PerSecond too", field, q.Burst)
	}
	return nil
}

// quotas has a limiter for each key that has come lately.
type quotas struct {
	Quota
	of   map[string]*rate.Limiter
	most int // when there are so many, those that would be as new go
}

const fewQuotas = 1024

// allow reports whether another connection of a key may come.
func (q *quotas) allow(key string) bool {
	l := q.of[key]
	if l == nil {
		if len(q.of) >= max(q.most, fewQuotas) {
			q.sweep()
		}
		l = q.limiter()
		q.of[key] = l
	}
	return l.Allow()
}

// sweep removes the limiters that are full.
func (q *quotas) sweep() {
	for key, l := range q.of {
		if l.Tokens() >= float64(q.burst()) {
			delete(q.of, key)
		}
	}
	q.most = 2 * len(q.of)
}
