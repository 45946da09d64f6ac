// Command fiber is a server with Fiber, and with the timeouts of idlefasthttp.
//
//	go -C examples/recipes run ./fiber
//
// Leave ReadTimeout, WriteTimeout and IdleTimeout of fiber.Config zero.
package main

import (
	"log"
	"net"

	"github.com/gofiber/fiber/v3"

	"github.com/idlewheel/idlewheel/adapters/idlefasthttp"
)

func main() {
	ln, err := net.Listen("tcp", "127.0.0.1:8080")
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(serve(ln, idlefasthttp.Timeouts{}))
}

func serve(ln net.Listener, t idlefasthttp.Timeouts) error {
	app := fiber.New()
	app.Get("/hello/:name", func(c fiber.Ctx) error { return c.SendString("hello " + c.Params("name")) })
	limited, err := idlefasthttp.Wrap(app.Server(), ln, t)
	if err != nil {
		return err
	}
	return app.Listener(limited)
}
