package main

import (
	"regexp"
	"slices"
	"strings"
)

// A known difference is a test that fails when connections are wrapped, for a reason
// that is known. It is left out of the runs that are compared, as what a package does
// when all tests are over it may do only if none has failed; it is run by itself.
type known struct {
	test   // with its subtests
	reason string
	fatal  bool // it hangs, or ends the process, so it is not run at all
	race   bool // it differs only under -race, where idlenet wraps listeners of HTTP
}

// known returns the differences that are known of a run with or without -race.
func (s suite) known(race bool) []known {
	return slices.DeleteFunc(slices.Clone(s.differences), func(k known) bool { return k.race && !race })
}

// skips returns which tests are known to differ, and of those the ones that can be
// run, as regular expressions for go test.
func skips(list []known) (all, harmless string) {
	var names, alive []string
	for _, k := range list {
		names = append(names, k.name)
		if !k.fatal {
			alive = append(alive, k.name)
		}
	}
	return alternatives(names), alternatives(alive)
}

// alternatives returns a pattern of go test for the given names of tests and subtests, which
// is empty if there are none.
func alternatives(names []string) string {
	var patterns []string
	for _, name := range names {
		parts := strings.Split(regexp.QuoteMeta(name), "/")
		patterns = append(patterns, "^"+strings.Join(parts, "$/^")+"$")
	}
	return strings.Join(patterns, "|")
}
