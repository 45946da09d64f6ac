package main

import (
	"fmt"
	"net"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/idlewheel/idlewheel/adapters/idlehttp"
)

// serveChi takes the place of http.ListenAndServe.
func serveChi(ln net.Listener) error {
	router := chi.NewRouter()
	router.Get("/hello/{name}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "hello ", chi.URLParam(r, "name"))
	})
	return idlehttp.Serve(&http.Server{Handler: router}, ln, idlehttp.Timeouts{})
}
