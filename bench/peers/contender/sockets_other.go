//go:build !unix

package contender

// mostSockets returns how many sockets a process may have.
func mostSockets() int { return mostPorts }
