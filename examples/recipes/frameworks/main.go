// Command frameworks is one server with gin, chi, Echo or Fiber.
//
//	go -C examples/recipes run ./frameworks gin
//	curl http://127.0.0.1:8080/hello/gopher
package main

import (
	"log"
	"net"
	"os"
)

// servers have functions in place of Run, Start, ListenAndServe and Listen.
func servers() map[string]func(net.Listener) error {
	return map[string]func(net.Listener) error{"gin": serveGin, "chi": serveChi, "echo": serveEcho, "fiber": serveFiber}
}

func main() {
	if len(os.Args) != 2 || servers()[os.Args[1]] == nil {
		log.Fatal("usage: go -C examples/recipes run ./frameworks gin|chi|echo|fiber")
	}
	ln, err := net.Listen("tcp", "127.0.0.1:8080")
	if err != nil {
		log.Fatal(err)
	}
	log.Print("serving on http://", ln.Addr())
	log.Fatal(servers()[os.Args[1]](ln))
}
