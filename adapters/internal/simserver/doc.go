// Package simserver runs real servers with the adapters' limits over a simulated network, in
// virtual time. A seed decides what each client does. A ledger checks what clients are promised:
//
//   - If a handler has begun to serve a request, its client gets the whole response, unless the
//     client exceeds a limit or leaves.
//   - A client that stops sending or reading is ended by the limit for that, never early and at
//     most two ticks late. No other client is ended.
//   - A response that begins after a drain has reached its connection asks the client to close.
//   - The server accepts at once, whatever other clients do.
//   - Each connection's end is recorded once.
package simserver
