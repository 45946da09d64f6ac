// Command echo is a server with Echo, and with the timeouts of idlehttp.
//
//	go -C examples/recipes run ./echo
package main

import (
	"log"
	"net"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/idlewheel/idlewheel/adapters/idlehttp"
)

func main() {
	ln, err := net.Listen("tcp", "127.0.0.1:8080")
	if err != nil {
		log.Fatal(err)
	}
	log.Print("serving on http://", ln.Addr())
	log.Fatal(serve(ln))
}

func serve(ln net.Listener) error {
	router := echo.New()
	router.GET("/hello/:name", func(c echo.Context) error { return c.String(http.StatusOK, "hello "+c.Param("name")) })
	return idlehttp.Serve(&http.Server{Handler: router}, ln, idlehttp.Timeouts{})
}
