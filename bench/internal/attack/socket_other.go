//go:build !linux

package attack

import (
	"errors"
	"syscall"
)

func look(syscall.Conn) (flow, error) { return flow{}, errors.ErrUnsupported }

func setSendBuffer(syscall.RawConn, int) error { return errors.ErrUnsupported }

func setReceiveBuffer(syscall.RawConn, int) error { return errors.ErrUnsupported }

func limitDescriptors(int) error { return errors.ErrUnsupported }
