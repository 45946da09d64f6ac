//go:build !linux

package idlegnet

import "net"

func delayAcknowledgements(net.Conn) {}
