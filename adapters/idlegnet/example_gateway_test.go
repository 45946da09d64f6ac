package idlegnet_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/adapters/idlegnet"
	"github.com/idlewheel/idlewheel/idle"
)

// gateway is a server for devices that speak lines. The first one is "hello interval",
// by which a device promises to beat at that interval. Then it is closed when it breaks
// the promise, whatever else it sends.
type gateway struct {
	gnet.BuiltinEventEngine
	timeouts *idlegnet.Handler
	engine   gnet.Engine
	booted   chan struct{}
}

func newGateway() (*gateway, error) {
	g := &gateway{booted: make(chan struct{})}
	hello := idle.Policy{Name: "hello", PhaseTimeout: 10 * time.Second}
	var err error
	g.timeouts, err = idlegnet.Wrap(g, hello, &idlegnet.Options{
		OnTimeout: g.farewell,
		Idle:      idle.Options{Tick: 10 * time.Millisecond}, // as a device may beat often
	})
	return g, err
}

// farewell tells a device why it is being closed. It runs on the loop of c, so it can
// write as OnTraffic can.
func (g *gateway) farewell(c gnet.Conn, err *idle.TimeoutError) (keep bool) {
	fmt.Fprintf(c, "bye: %s of %v passed\n", err.Setting, err.Limit)
	return false
}

func (g *gateway) OnBoot(engine gnet.Engine) gnet.Action {
	g.engine = engine
	close(g.booted)
	return gnet.None
}

func (g *gateway) OnTraffic(c gnet.Conn) gnet.Action {
	for {
		buffered, _ := c.Peek(-1)
		end := bytes.IndexByte(buffered, '\n')
		if end < 0 {
			return gnet.None
		}
		line := string(buffered[:end])
		c.Discard(end + 1)
		if !g.handle(c, line) {
			return gnet.Close
		}
	}
}

// handle handles a line, and reports whether it was one to be expected.
func (g *gateway) handle(c gnet.Conn, line string) bool {
	device, known := c.Context().(*idlegnet.Conn) // of a device that has said hello
	interval, isHello := strings.CutPrefix(line, "hello ")
	switch {
	case isHello && !known:
		return g.admit(c, interval)
	case line == "beat" && known:
		device.Beat()
		return true
	case known:
		fmt.Fprintln(c, "you said", line)
		return true
	}
	return false
}

// admit puts a device under the heartbeat that it has promised. A phase for each device
// is cheap.
func (g *gateway) admit(c gnet.Conn, text string) bool {
	interval, err := time.ParseDuration(text)
	if err != nil {
		return false
	}
	var beat idle.Heartbeat // stays off if the device asks for no heartbeat
	if interval != 0 {
		beat = idle.Heartbeat{Interval: interval, Timeout: interval / 2, Passive: true}
	}
	admitted, err := g.timeouts.Phase(idle.Policy{
		Name:         "admitted",
		Heartbeat:    beat,
		WriteTimeout: 10 * time.Second,
	})
	if err != nil {
		return false
	}
	device := g.timeouts.Conn(c) // looked up once
	c.SetContext(device)
	device.Enter(admitted)
	fmt.Fprintln(c, "welcome")
	return true
}

// A gateway of gnet negotiates the heartbeat of each device, and says farewell to those
// that break it.
func Example_gateway() {
	g, err := newGateway()
	if err != nil {
		log.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	address := filepath.Join(dir, "gateway")
	ended := make(chan error)
	go func() { ended <- gnet.Run(g.timeouts, "unix://"+address) }()
	<-g.booted

	device, err := net.Dial("unix", address)
	if err != nil {
		log.Fatal(err)
	}
	defer device.Close()
	io.WriteString(device, "hello 100ms\nbeat\nhow are you?\n") // and no further beat
	for in := bufio.NewScanner(device); in.Scan(); {
		fmt.Println(in.Text())
	}
	fmt.Println("timed out:", g.timeouts.Stats().TimedOut)
	g.engine.Stop(context.Background())
	<-ended
	// Output:
	// welcome
	// you said how are you?
	// bye: Heartbeat of 150ms passed
	// timed out: map[heartbeat:1]
}
