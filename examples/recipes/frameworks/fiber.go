package main

import (
	"net"

	"github.com/gofiber/fiber/v3"

	"github.com/idlewheel/idlewheel/adapters/idlefasthttp"
)

// serveFiber takes the place of Listen of fiber.App. ReadTimeout, WriteTimeout and IdleTimeout of
// fiber.Config stay zero.
func serveFiber(ln net.Listener) error {
	app := fiber.New()
	app.Get("/hello/:name", func(c fiber.Ctx) error { return c.SendString("hello " + c.Params("name")) })
	limited, err := idlefasthttp.Wrap(app.Server(), ln, idlefasthttp.Timeouts{})
	if err != nil {
		return err
	}
	return app.Listener(limited)
}
