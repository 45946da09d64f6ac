// Command gin is a server with gin, and with the timeouts of idlehttp.
//
//	go -C examples/recipes run ./gin
package main

import (
	"log"
	"net"
	"net/http"

	"github.com/gin-gonic/gin"

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
	router := gin.Default()
	router.GET("/hello/:name", func(c *gin.Context) { c.String(http.StatusOK, "hello %s", c.Param("name")) })
	return idlehttp.Serve(&http.Server{Handler: router}, ln, idlehttp.Timeouts{})
}
