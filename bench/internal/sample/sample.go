// Package sample watches something in the background.
package sample

import "time"

// Every calls take at once and then once a period, until the function that it
// returns is called, which returns all that take has returned.
func Every[T any](period time.Duration, take func() T) (stop func() []T) {
	done, result := make(chan struct{}), make(chan []T)
	go func() {
		tick := time.NewTicker(period)
		defer tick.Stop()
		var all []T
		for {
			all = append(all, take())
			select {
			case <-tick.C:
			case <-done:
				result <- all
				return
			}
		}
	}()
	return func() []T {
		close(done)
		return <-result
	}
}
