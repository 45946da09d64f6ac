// Package faults is tests only: faults on real sockets, each with the behaviour
// that is expected written down where it is tested.
//
// None of them asserts a time that a busy machine can break. A client that
// has to stay alive notes its own silences. If the machine made one as long as the
// limit, the test is skipped. What has to happen is waited for.
package faults
