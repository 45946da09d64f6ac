// Package model has models of the protocols of package idle, for tests only: of a connection's
// words, and of the clock's sleep. All interleavings of a few threads are explored. A model
// uses none of the code, and is changed before the code is. docs/correctness.md says what is
// shown, and what isn't.
//
// Some names are shorter than the code's: judge is Shard.check, verdict is Shard.decide, mark is the flag ending,
// examine is Probe, stamp is lastIn, and whole is PhaseTimeout.
package model
