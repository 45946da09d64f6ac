package faults

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

func init() { children["vanishing"] = vanish }

// vanish is the child.
func vanish() error {
	if err := setLoopback(true); err != nil {
		return fmt.Errorf("taking loopback up: %w", err)
	}
	all, stop, err := startVanishing()
	if err != nil {
		return err
	}
	defer stop()
	for _, v := range all {
		c, err := net.Dial("tcp", v.address)
		if err != nil {
			return err
		}
		defer c.Close()
		if err := v.begin(c); err != nil {
			return err
		}
	}
	if err := setLoopback(false); err != nil {
		return fmt.Errorf("taking loopback down: %w", err)
	}
	fmt.Println("down")
	for _, v := range all {
		if err := v.check(patience); err != nil {
			fmt.Printf("%s: %v\n", v.name, err)
		}
	}
	fmt.Println("done")
	time.Sleep(time.Second) // for the parent to read that; stopping takes long without a network
	os.Exit(0)
	return errors.New("unreachable")
}

// setLoopback takes the loopback interface up or down.
func setLoopback(up bool) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, ifr); err != nil {
		return err
	}
	flags := ifr.Uint16() &^ unix.IFF_UP
	if up {
		flags |= unix.IFF_UP
	}
	ifr.SetUint16(flags)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr)
}
