package main

import (
	"os"
	"strings"
	"testing"
	"time"
)

// TestMain is main in a process that fleet.supervise has started.
func TestMain(m *testing.M) {
	if os.Getenv(nodeEnv) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestParse(t *testing.T) {
	o, err := parse(strings.Fields("-clients 20 -kill -drain -over 5s -outage 1m -json"))
	if err != nil || o.clients != 20 || !o.kill || !o.drain || o.over != 5*time.Second || o.outage != time.Minute || !o.json || o.nodes != 3 {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestParseInvalid(t *testing.T) {
	for args, says := range map[string]string{
		"-clients -5":                     "-clients is -5; it must be at least 1",
		"-ops -1":                         "-ops is -1",
		"-over 0s":                        "-over is 0s",
		"-outage -1s":                     "-outage is -1s",
		"-outage 1m -nats nats://other:1": `-outage is 1m0s and -nats is "nats://other:1"`,
		"-nodes 1 -kill":                  "-nodes is 1",
		"-nodes 1 -drain":                 "-nodes is 1",
		"-drain node2":                    `"node2" is not a flag`,
	} {
		if _, err := parse(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v; want an error that says %s", args, err, says)
		}
	}
}
