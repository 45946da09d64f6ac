package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/adapters/idlegnet"
	"github.com/idlewheel/idlewheel/adapters/idlehttp"
	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/idle"
)

// victimCommand, as the first argument, makes this program one of the servers
// that are abused.
const victimCommand = "serve-for-soak"

// runVictim serves until stdin ends.
func runVictim(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) != 2 || victims[args[0]] == nil || args[1] != bare && args[1] != ours {
		fmt.Fprintf(stderr, "soak: %s: bad arguments %q\n", victimCommand, args)
		return statusTrouble
	}
	if err := victims[args[0]](args[1] == ours, func(address string) { fmt.Fprintln(stdout, address) }); err != nil {
		fmt.Fprintf(stderr, "soak: the server: %v\n", err)
		return statusTrouble
	}
	io.Copy(io.Discard, stdin)
	return statusPass
}

// victims is how each kind is started.
var victims = map[string]func(limited bool, ready func(address string)) error{
	"idlenet": netVictim, "idlegnet": gnetVictim, "idlehttp": httpVictim,
}

// everything is a policy with all limits, of which an abusive client passes none.
func everything() idle.Policy {
	const long = 10 * time.Minute
	return idle.Policy{
		IdleTimeout: long, ReadTimeout: long, WriteTimeout: long, MaxAge: 10 * long,
		Heartbeat:    idle.Heartbeat{Interval: long, Timeout: long, Passive: true},
		MinReadRate:  idle.Rate{BytesPerSecond: 1, Grace: long},
		MinWriteRate: idle.Rate{BytesPerSecond: 1, Grace: long},
	}
}

func netVictim(limited bool, ready func(string)) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ready(ln.Addr().String())
	if limited {
		if ln, err = idlenet.Wrap(ln, everything(), nil); err != nil {
			return err
		}
	}
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go takeBeats(c)
		}
	}()
	return nil
}

// takeBeats looks at each byte, and reports each beat if there is somebody to
// report it to.
func takeBeats(c net.Conn) {
	defer c.Close()
	tracked, _ := c.(*idlenet.Conn)
	b := make([]byte, 4096)
	beats := 0
	for {
		n, err := c.Read(b)
		if err != nil {
			return
		}
		for _, message := range b[:n] {
			switch {
			case message == quit:
				return
			case message != beat:
			case tracked != nil:
				tracked.Beat()
			default:
				beats++
			}
		}
	}
}

// gnetVictims does the same with gnet.
type gnetVictims struct {
	gnet.BuiltinEventEngine
	wheel *idlegnet.Handler // nil if there are no limits
	ready func()
	beats int
}

func gnetVictim(limited bool, ready func(string)) error {
	address, err := freeAddress()
	if err != nil {
		return err
	}
	v := &gnetVictims{ready: func() { ready(address) }}
	var h gnet.EventHandler = v
	if limited {
		if v.wheel, err = idlegnet.Wrap(v, everything(), nil); err != nil {
			return err
		}
		h = v.wheel
	}
	go gnet.Run(h, "tcp://"+address, gnet.WithLogger(noLog{}))
	return nil
}

func (v *gnetVictims) OnBoot(gnet.Engine) gnet.Action {
	v.ready()
	return gnet.None
}

func (v *gnetVictims) OnTraffic(c gnet.Conn) gnet.Action {
	b, _ := c.Next(-1)
	var timeouts *idlegnet.Conn
	if v.wheel != nil {
		timeouts = v.wheel.Conn(c)
	}
	for _, message := range b {
		switch {
		case message == quit:
			return gnet.Close
		case message != beat:
		case timeouts != nil:
			timeouts.Beat()
		default:
			v.beats++
		}
	}
	return gnet.None
}

func httpVictim(limited bool, ready func(string)) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ready(ln.Addr().String())
	h := &http.Server{
		Handler:        http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, pageText) }),
		MaxHeaderBytes: 10 << 20,
	}
	if limited {
		long := 10 * time.Minute
		go idlehttp.Serve(h, ln, idlehttp.Timeouts{HandshakeTimeout: long, HeaderTimeout: long, BodyTimeout: long, WriteTimeout: long, KeepAliveTimeout: long})
		return nil
	}
	go h.Serve(ln)
	return nil
}
