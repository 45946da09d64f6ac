package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlehttp"
)

// readTimeouts reads a file with some fields of Timeouts: {"BodyTimeout": "1m", "HandlerTimeout": "off"}.
// The other fields have their defaults, all of them if the name is empty.
func readTimeouts(file string) (t idlehttp.Timeouts, err error) {
	if file == "" {
		return t, nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return t, err
	}
	texts := map[string]string{}
	if err := json.Unmarshal(b, &texts); err != nil {
		return t, fmt.Errorf("%s: %w", file, err)
	}
	fields := map[string]*time.Duration{
		"HandshakeTimeout": &t.HandshakeTimeout, "HeaderTimeout": &t.HeaderTimeout, "BodyTimeout": &t.BodyTimeout,
		"HandlerTimeout": &t.HandlerTimeout, "WriteTimeout": &t.WriteTimeout, "KeepAliveTimeout": &t.KeepAliveTimeout,
	}
	for name, text := range texts {
		field, ok := fields[name]
		if !ok {
			return t, fmt.Errorf("%s: there is no %q", file, name)
		}
		if text == "off" {
			*field = idlehttp.Off
		} else if *field, err = time.ParseDuration(text); err != nil {
			return t, fmt.Errorf("%s: %s: %w", file, name, err)
		}
	}
	return t, nil
}

// reload reads the file again whenever it receives from hup, and sets the timeouts.
func reload(hup <-chan os.Signal, file string, l *idlehttp.Listener) {
	for range hup {
		t, err := readTimeouts(file)
		if err == nil {
			err = l.SetTimeouts(t)
		}
		if err != nil {
			log.Print("the timeouts stay as they are: ", err)
			continue
		}
		log.Printf("timeouts are read again from %q", file)
	}
}
