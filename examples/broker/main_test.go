package main

import (
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idletest"
)

// TestTimeouts plays a client that never connects, and one that chooses a keep-alive of an hour and never beats.
func TestTimeouts(t *testing.T) {
	for hello, limit := range map[string]time.Duration{
		"CONN":           10 * time.Second,
		"CONNECT 3600\n": 90 * time.Minute,
	} {
		synctest.Test(t, func(t *testing.T) {
			pipes := idletest.NewListener()
			defer pipes.Close()
			go serve(pipes)
			client, err := pipes.Dial()
			if err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			io.WriteString(client, hello)
			_, err = client.Read(make([]byte, 1)) // until the server hangs up
			waited := time.Since(begun)
			if err != io.EOF || waited < limit || waited > limit+time.Second {
				t.Errorf("%q: %v after %v", hello, err, waited)
			}
		})
	}
}

// TestBeats has a client that beats in time for a day.
func TestBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipes := idletest.NewListener()
		defer pipes.Close()
		go serve(pipes)
		client, err := pipes.Dial()
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		fmt.Fprintln(client, "CONNECT 3600")
		for range 24 {
			time.Sleep(time.Hour)
			fmt.Fprintln(client, "I'm here")
			if _, err := io.ReadFull(client, make([]byte, len("ok\n"))); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestRefused are greetings after which the server hangs up.
func TestRefused(t *testing.T) {
	for _, hello := range []string{"HELLO\n", "CONNECT 0\n", "CONNECT -3\n", "CONNECT\n"} {
		synctest.Test(t, func(t *testing.T) {
			pipes := idletest.NewListener()
			defer pipes.Close()
			go serve(pipes)
			client, err := pipes.Dial()
			if err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			io.WriteString(client, hello)
			if _, err := client.Read(make([]byte, 1)); err != io.EOF || time.Since(begun) > time.Second {
				t.Errorf("%q: %v after %v", hello, err, time.Since(begun))
			}
		})
	}
}
