package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlehttp"
)

// readTimeouts reads a file that has some fields of Timeouts: {"BodyTimeout": "1m", "HandlerTimeout": "off"}.
// Others have their defaults, and so have all of them if there is no file.
func readTimeouts(file string) (t idlehttp.Timeouts, err error) {
	if file == "" {
		return t, nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return t, err
	}
	said := map[string]string{}
	if err := json.Unmarshal(b, &said); err != nil {
		return t, fmt.Errorf("%s: %w", file, err)
	}
	fields := map[string]*time.Duration{
		"HandshakeTimeout": &t.HandshakeTimeout, "HeaderTimeout": &t.HeaderTimeout, "BodyTimeout": &t.BodyTimeout,
		"HandlerTimeout": &t.HandlerTimeout, "WriteTimeout": &t.WriteTimeout, "KeepAliveTimeout": &t.KeepAliveTimeout,
	}
	for name, text := range said {
		field, known := fields[name]
		if !known {
			return t, fmt.Errorf("%s: there is no %q", file, name)
		}
		if text == "off" {
			*field = idlehttp.Off
			continue
		}
		if *field, err = time.ParseDuration(text); err != nil {
			return t, fmt.Errorf("%s: %s: %w", file, name, err)
		}
	}
	return t, nil
}

// reload sets the timeouts that the file has by then, whenever it is told to. When it returns,
// SIGHUP is still caught, because otherwise it would end the process in the middle of a drain.
func reload(ctx context.Context, file string, listeners ...*idlehttp.Listener) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	for {
		select {
		case <-ctx.Done():
			return
		case <-signals:
		}
		t, err := readTimeouts(file)
		for _, l := range listeners {
			if err == nil {
				err = l.SetTimeouts(t)
			}
		}
		if err != nil {
			log.Print("the timeouts stay as they are: ", err)
			continue
		}
		log.Printf("timeouts are read again from %q", file)
	}
}
