// Package traces checks traces of connections of real servers against the model, see
// docs/correctness.md. Its test isn't in package idle, because then every program that imports idle
// would have all servers in its go.sum.
package traces
