package main

import (
	"net"

	"github.com/gofiber/fiber/v3"

	"github.com/idlewheel/idlewheel/adapters/idlefasthttp"
)

// In a fiber.Config, ReadTimeout, WriteTimeout and IdleTimeout stay zero.
func serveFiber(ln net.Listener) error {
	app := fiber.New()
	app.Get("/hello/:name", func(c fiber.Ctx) error { return c.SendString("hello " + c.Params("name")) })
	limited, err := idlefasthttp.Wrap(app.Server(), ln, idlefasthttp.Timeouts{})
	if err != nil {
		return err
	}
	return app.Listener(limited)
}
