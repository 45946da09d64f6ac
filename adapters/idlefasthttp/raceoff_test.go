//go:build proof && !race

package idlefasthttp

// raced is whether the race detector is at work.
const raced = false
