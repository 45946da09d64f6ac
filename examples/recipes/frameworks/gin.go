package main

import (
	"net"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/idlewheel/idlewheel/adapters/idlehttp"
)

// serveGin takes the place of Run and RunListener of gin.Engine.
func serveGin(ln net.Listener) error {
	router := gin.Default()
	router.GET("/hello/:name", func(c *gin.Context) { c.String(http.StatusOK, "hello %s", c.Param("name")) })
	return idlehttp.Serve(&http.Server{Handler: router}, ln, idlehttp.Timeouts{})
}
