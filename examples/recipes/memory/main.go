// Command memory is an echo server that closes idle clients sooner while memory runs out, and sheds
// some if that isn't enough.
//
//	GOMEMLIMIT=100MiB go -C examples/recipes run ./memory
//	nc 127.0.0.1 8080
//
// Clients may be idle for ten minutes. While more than 85 % of GOMEMLIMIT is in use, they may be
// idle for ten seconds, also those that are connected already. They get their ten minutes back
// below 75 %. The gap keeps a reading near one threshold from switching the limits all the time.
// While more than 95 % is in use, a tenth of the clients that have been idle for a second are ended
// each second. Your server may choose by something else, such as the phase or the age.
//
// To read a container's memory instead, divide memory.current by memory.max, two files in
// /sys/fs/cgroup. That includes buffers of the kernel and memory that isn't Go's, but also cached
// files, which the kernel gives up when it has to.
//
// Listeners of idlehttp and idlefasthttp have SetTimeouts in place of Tracker.SetPolicy.
package main

import (
	"context"
	"errors"
	"io"
	"log"
	"math"
	"math/rand/v2"
	"net"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/idle"
)

const (
	high    = 0.85 // the share of memory in use at which the limits get tight
	low     = 0.75 // and the share below which they are normal again
	highest = 0.95 // the share at which clients are shed
)

func main() {
	ln, err := net.Listen("tcp", "127.0.0.1:8080")
	if err != nil {
		log.Fatal(err)
	}
	l, err := idlenet.Wrap(ln, idle.Policy{IdleTimeout: 10 * time.Minute, WriteTimeout: 30 * time.Second}, nil)
	if err != nil {
		log.Fatal(err)
	}
	log.Print("echoing on ", ln.Addr())
	go func() { log.Fatal(follow(l.Tracker(), heap)) }()
	log.Fatal(serve(l))
}

// follow reads every second which share of the memory is in use, and sets the policy of t for that,
// until a reading fails. It sheds clients if that isn't enough. Nothing else may set the policy meanwhile.
func follow(t *idle.Tracker, used func() (float64, error)) error {
	normal := t.Policy()
	tight := normal
	tight.IdleTimeout, tight.WriteTimeout = 10*time.Second, 5*time.Second
	for isTight := false; ; time.Sleep(time.Second) {
		share, err := used()
		if err != nil {
			return err
		}
		if should := share > high || isTight && share >= low; should != isTight {
			policy := normal
			if should {
				policy = tight
			}
			if err := t.SetPolicy(policy); err != nil {
				return err
			}
			log.Printf("%.0f %% of the memory is in use: clients may be idle for %v", 100*share, policy.IdleTimeout)
			isTight = should
		}
		if share > highest {
			n, err := shed(t, time.Second, 0.1)
			log.Printf("%.0f %% of the memory is in use: %d idle clients are shed", 100*share, n)
			if err != nil {
				return err
			}
		}
	}
}

// shed ends a share of the clients that have been idle for a time, but none that's used meanwhile. It
// returns how many are about to end.
func shed(t *idle.Tracker, idleFor time.Duration, share float64) (n int, err error) {
	err = t.Visit(context.Background(), func(i idle.Info) {
		if i.Idle >= idleFor && !i.Busy && rand.Float64() < share {
			i.EndIfIdle("memory")
			n++
		}
	})
	return n, err
}

// heap returns the share of GOMEMLIMIT that the last garbage collection found in use. The size of
// the heap wouldn't do, because the runtime lets garbage fill it up to the limit. Without allocations
// the runtime collects only every two minutes, so on a quiet server the result may be that old.
func heap() (float64, error) {
	limit := debug.SetMemoryLimit(-1)
	if limit == math.MaxInt64 {
		return 0, errors.New("GOMEMLIMIT isn't set; set it to nine tenths of the memory that the server may use")
	}
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(s)
	return float64(s[0].Value.Uint64()+s[1].Value.Uint64()) / float64(limit), nil
}

// serve echoes what clients send.
func serve(ln net.Listener) error {
	for {
		conn, err := ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return err
		} else if err != nil { // such as too many open files
			log.Print(err)
			time.Sleep(10 * time.Millisecond)
			continue
		}
		go func() {
			defer conn.Close()
			io.Copy(conn, conn)
		}()
	}
}
