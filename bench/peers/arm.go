package main

import "time"

// armCancel is what connections cost that come and go, while others stay.
func armCancel(others int) workload {
	const coming = 1 << 10
	return workload{
		name: "arm-cancel", conns: others + coming,
		measures: []measure{{"arm-cancel", "arm and cancel, with " + short(others) + " others live", "ns"}},
		run: func(t turn) (outcome, error) {
			trip := newTripwire(resetTimeout)
			c, err := armed(t.kind, t.conns, resetTimeout, trip.expire)
			if err != nil {
				return outcome{}, err
			}
			defer c.Close()
			others := t.conns - coming
			for i := others; i < t.conns; i++ {
				c.Cancel(i)
			}
			begun, done := time.Now(), 0
			for time.Since(begun) < t.scale.Measure {
				for i := others; i < t.conns; i++ {
					if err := c.Arm(i); err != nil {
						return outcome{}, err
					}
					c.Cancel(i)
				}
				done += coming
			}
			o := newOutcome("arm-cancel", float64(time.Since(begun))/float64(done))
			o.Early = int(trip.early.Load())
			return o, nil
		},
	}
}
