//go:build !linux

package main

import (
	"errors"
	"time"
)

var errSystem = errors.New("it needs Linux")

func connectPlain(*connections, config) (load, error) { return nil, errSystem }

func (m *member) weigh(kind string, core int, cfg config, conns int) error { return errSystem }

func (m *member) silence(kind string, core int, cfg config, conns int, limit time.Duration) error {
	return errSystem
}
