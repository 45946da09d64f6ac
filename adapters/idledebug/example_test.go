package idledebug_test

import (
	"log"
	"net"
	"net/http"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idledebug"
	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/idle"
)

// The page is on a port of its own, which only this machine reaches.
func Example() {
	bare, err := net.Listen("tcp", ":9000")
	if err != nil {
		log.Fatal(err)
	}
	ln, err := idlenet.Wrap(bare, idle.Policy{Name: "chat", IdleTimeout: time.Minute}, nil)
	if err != nil {
		log.Fatal(err)
	}
	page, err := idledebug.New(map[string]*idle.Tracker{"chat": ln.Tracker()}, &idledebug.Options{Steer: true})
	if err != nil {
		log.Fatal(err)
	}
	ops := http.NewServeMux()
	ops.Handle("/debug/idle/", http.StripPrefix("/debug/idle", page))
	go func() { log.Fatal(http.ListenAndServe("localhost:6060", ops)) }()

	for {
		conn, err := ln.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go serve(conn)
	}
}

// Operators may look, and only administrators may steer.
func ExampleOptions_Authorize() {
	tracker, err := idle.New(idle.Policy{IdleTimeout: time.Minute}, nil)
	if err != nil {
		log.Fatal(err)
	}
	page, err := idledebug.New(map[string]*idle.Tracker{"chat": tracker}, &idledebug.Options{
		Steer: true,
		Authorize: func(r *http.Request) bool {
			if r.Method == http.MethodPost {
				return hasRole(r, "administrator")
			}
			return hasRole(r, "operator")
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	http.Handle("/idle/", http.StripPrefix("/idle", page))
}

func serve(conn net.Conn) { conn.Close() }

func hasRole(r *http.Request, role string) bool { return r.Header.Get("Role") == role }
