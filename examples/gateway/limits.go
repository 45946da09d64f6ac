package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// limits are what the file says that -limits names: {"handshake": "2s", "idle": "3s"}.
type limits struct {
	Handshake duration // how long a device may take to say hello
	Idle      duration // how long one that does not beat may be silent
}

// duration is a time.Duration that is written as in Go.
type duration time.Duration

func (d *duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = duration(parsed)
	return err
}

// read reads l from a file. What the file does not say stays as it was.
func (l *limits) read(file string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, l); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}
