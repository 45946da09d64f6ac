package main

import (
	"fmt"
	"net"
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/gofiber/fiber/v3"
	"github.com/labstack/echo/v4"

	"github.com/idlewheel/idlewheel/adapters/idlefasthttp"
	"github.com/idlewheel/idlewheel/adapters/idlehttp"
)

// Frameworks on net/http are handlers of an http.Server.

func serveGin(ln net.Listener) error {
	router := gin.Default()
	router.GET("/hello/:name", func(c *gin.Context) { c.String(http.StatusOK, "hello %s", c.Param("name")) })
	return idlehttp.Serve(&http.Server{Handler: router}, ln, idlehttp.Timeouts{})
}

func serveChi(ln net.Listener) error {
	router := chi.NewRouter()
	router.Get("/hello/{name}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "hello ", chi.URLParam(r, "name"))
	})
	return idlehttp.Serve(&http.Server{Handler: router}, ln, idlehttp.Timeouts{})
}

func serveEcho(ln net.Listener) error {
	router := echo.New()
	router.GET("/hello/:name", func(c echo.Context) error { return c.String(http.StatusOK, "hello "+c.Param("name")) })
	return idlehttp.Serve(&http.Server{Handler: router}, ln, idlehttp.Timeouts{})
}

// Fiber is on fasthttp. In a fiber.Config, ReadTimeout, WriteTimeout and IdleTimeout stay zero.
func serveFiber(ln net.Listener) error {
	app := fiber.New()
	app.Get("/hello/:name", func(c fiber.Ctx) error { return c.SendString("hello " + c.Params("name")) })
	limited, err := idlefasthttp.Wrap(app.Server(), ln, idlefasthttp.Timeouts{})
	if err != nil {
		return err
	}
	return app.Listener(limited)
}
