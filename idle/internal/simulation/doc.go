// Package simulation plays random connections under random policies, in virtual time, and compares
// what the tracker does with a ledger that knows only promises of the documentation. See
// docs/correctness.md. It has only tests, which use package idle as programs do, packages that
// need package idle included; see inside_test.go for the exceptions.
package simulation
