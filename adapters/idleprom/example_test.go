package idleprom_test

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/adapters/idleprom"
	"github.com/idlewheel/idlewheel/idle"
)

func ExampleNew() {
	bare, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	ln, err := idlenet.Wrap(bare, idle.Policy{IdleTimeout: 50 * time.Millisecond}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer ln.Close()

	metrics, err := idleprom.New(map[string]*idle.Tracker{"echo": ln.Tracker()}, nil)
	if err != nil {
		log.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics)
	ops := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	defer ops.Close()

	// A client is silent for too long.
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	conn, err := ln.Accept()
	if err != nil {
		log.Fatal(err)
	}
	io.Copy(conn, conn)
	conn.Close()

	page, err := http.Get(ops.URL)
	if err != nil {
		log.Fatal(err)
	}
	defer page.Body.Close()
	for lines := bufio.NewScanner(page.Body); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), `idlewheel_connections_ended_total{reason="IdleTimeout"`) {
			fmt.Println(lines.Text())
		}
	}
	// Output: idlewheel_connections_ended_total{reason="IdleTimeout",tracker="echo"} 1
}
