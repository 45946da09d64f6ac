//go:build race

package simulation

// raceEnabled tells that the race detector watches, which would complain of a
// clock that is set forward while its readers sleep.
const raceEnabled = true
