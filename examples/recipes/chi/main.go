// Command chi is a server with chi, and with the timeouts of idlehttp.
//
//	go -C examples/recipes run ./chi
package main

import (
	"fmt"
	"log"
	"net"
	"net/http"

	"github.com/go-chi/chi/v5"

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
	router := chi.NewRouter()
	router.Get("/hello/{name}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "hello ", chi.URLParam(r, "name"))
	})
	return idlehttp.Serve(&http.Server{Handler: router}, ln, idlehttp.Timeouts{})
}
