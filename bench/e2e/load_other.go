//go:build !linux

package main

import "errors"

const (
	serverCore = 0
	loadCore   = 1
)

func pin(int) error { return nil }

// connectPlain needs epoll.
func connectPlain(string, int, []byte, int) (load, error) {
	return nil, errors.New("the load generator runs on Linux only")
}
