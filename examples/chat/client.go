package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
)

// join chats as name: what is typed is sent, what is said is shown, and pings
// are answered.
func join(address, name string) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := fmt.Fprintln(conn, name); err != nil {
		return err
	}
	go io.Copy(conn, os.Stdin)
	in := bufio.NewScanner(conn)
	for in.Scan() {
		if in.Text() != pingLine {
			fmt.Println(in.Text())
			continue
		}
		if _, err := fmt.Fprintln(conn, pongLine); err != nil {
			return err
		}
	}
	if err := in.Err(); err != nil {
		return err
	}
	return io.EOF
}
