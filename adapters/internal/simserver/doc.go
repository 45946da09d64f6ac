// Package simserver runs real servers with the adapters' limits over a simulated network, in
// virtual time. Clients of all kinds are drawn from a seed. A ledger knows what each of them was
// promised:
//
//   - A request that a handler has begun is answered completely, unless its client fell behind or
//     went away.
//   - A client that stops is ended by the limit that is meant for it, never early, and at most two
//     ticks late. Nobody else is.
//   - A response that begins after a drain has reached its connection asks to close it.
//   - A server accepts at once, whatever other clients do.
//   - Each connection's end is recorded once.
package simserver
