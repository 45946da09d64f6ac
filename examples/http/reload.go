package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"reflect"
	"strconv"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlehttp"
	"github.com/idlewheel/idlewheel/idle"
)

// readTimeouts reads a file with some fields of Timeouts, durations and bytes per second:
// {"BodyTimeout": "1m", "BodyRate": "100", "HandlerTimeout": "off"}.
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
	for name, text := range texts {
		if err := set(reflect.ValueOf(&t).Elem().FieldByName(name), text); err != nil {
			return t, fmt.Errorf("%s: %s is %q: %w", file, name, text, err)
		}
	}
	return t, nil
}

// set sets a field of Timeouts.
func set(field reflect.Value, text string) (err error) {
	if !field.IsValid() {
		return errors.New("there is no such field")
	}
	switch f := field.Addr().Interface().(type) {
	case *time.Duration:
		if *f = idlehttp.Off; text != "off" {
			*f, err = time.ParseDuration(text)
		}
	case *idle.Rate:
		if f.BytesPerSecond = idlehttp.Off; text != "off" {
			f.BytesPerSecond, err = strconv.Atoi(text)
		}
	default:
		err = errors.New("only durations and rates can be set")
	}
	return err
}

// reload reads the file again whenever it receives from hup, and sets the timeouts.
func reload(hup <-chan os.Signal, file string, l *idlehttp.Listener) {
	for range hup {
		if file == "" {
			log.Print("the timeouts stay as they are: there is no -timeouts")
			continue
		}
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
