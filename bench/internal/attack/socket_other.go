//go:build !linux

package attack

import (
	"errors"
	"syscall"
)

func setSendBuffer(syscall.RawConn, int) error { return errors.ErrUnsupported }

func setReceiveBuffer(syscall.RawConn, int) error { return errors.ErrUnsupported }

func limitDescriptors(int) error { return errors.ErrUnsupported }
