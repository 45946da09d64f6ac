//go:build !linux

package main

import "errors"

func connectPlain(*connections, int) (load, error) { return nil, errors.New("it needs Linux") }
