package faults

import (
	"fmt"
	"net"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/adapters/idlefasthttp"
)

func init() { children["1970"] = serveIn1970 }

// serveIn1970 runs a server whose clock was never set.
func serveIn1970() error {
	if err := stepBy(-time.Now().Unix()); err != nil {
		return err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	h := &fasthttp.Server{Handler: func(ctx *fasthttp.RequestCtx) { ctx.WriteString("hello") }}
	go idlefasthttp.Serve(h, ln, idlefasthttp.Timeouts{HeaderTimeout: limit, BodyTimeout: 5 * limit})
	fmt.Println("listening", ln.Addr())
	untilDismissed()
	return nil
}
