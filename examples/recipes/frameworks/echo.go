package main

import (
	"net"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/idlewheel/idlewheel/adapters/idlehttp"
)

// serveEcho takes the place of Start of echo.Echo.
func serveEcho(ln net.Listener) error {
	router := echo.New()
	router.GET("/hello/:name", func(c echo.Context) error { return c.String(http.StatusOK, "hello "+c.Param("name")) })
	return idlehttp.Serve(&http.Server{Handler: router}, ln, idlehttp.Timeouts{})
}
