//go:build !linux

package main

import (
	"errors"
	"time"
)

const (
	serverCore = 0
	loadCore   = 1
)

func pin(int) error { return nil }

// load needs epoll.
type load struct{}

func connect(string, int, []byte, int) (*load, error) {
	return nil, errors.New("the load generator runs on Linux only")
}

func (*load) close() {}

func (*load) run(time.Duration) (float64, error) { return 0, errors.ErrUnsupported }
