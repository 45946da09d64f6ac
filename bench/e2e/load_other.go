//go:build !linux

package main

import "errors"

func connectPlain(string, int, []byte, int) (load, error) { return nil, errors.New("it needs Linux") }
