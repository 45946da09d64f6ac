package node

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"

	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/idle"
)

// A gateway serves the clients of a node. They speak lines:
//
//	hello client-17 1764300000000000   from a client: its name, and the number of its session
//	welcome node1                      the answer
//	beat                               from a client
//	move 10.0.0.2:9011                 connect there instead; without an address, to any other node
//	bye i/o timeout: online: ...       why the connection is being closed
//
// A client gives each session a greater number than the one before. So if two nodes have the same
// client, they know whose connection is the older one, and no clocks are compared.
type gateway struct {
	node      string
	tracker   *idle.Tracker
	online    *idle.Phase
	elsewhere func() string                       // an address for a client that has to leave, or ""
	arrived   func(client string, session uint64) // tells the other nodes

	mu      sync.Mutex // guards what follows
	clients map[string]session
	limits  Limits
	refused string // why the limits that were set last don't apply, or ""
}

type session struct {
	number uint64
	conn   *idlenet.Conn
}

const maxLine = 128 // bytes, with the newline

func newGateway(node string, maxConns int) (g *gateway, err error) {
	g = &gateway{node: node, clients: map[string]session{}, limits: DefaultLimits()}
	handshake, online := g.limits.policies()
	if g.tracker, err = idle.New(handshake, nil); err != nil {
		return nil, err
	}
	if g.online, err = g.tracker.Phase(online); err != nil {
		return nil, err
	}
	// A full node refuses newcomers, who try another one. It doesn't evict clients for them.
	return g, g.tracker.SetCapacity(idle.Capacity{MaxConns: maxConns, Exempt: []*idle.Phase{g.online}})
}

// serve accepts clients until ln is closed.
func (g *gateway) serve(ln net.Listener) error {
	timed, err := idlenet.Wrap(ln, idle.Policy{}, &idlenet.Options{
		Tracker: g.tracker,
		OnEnd:   func(c *idlenet.Conn, err *idle.TimeoutError) { fmt.Fprintf(c, "bye %v\n", err) },
		OnDrain: func(c *idlenet.Conn) { fmt.Fprintln(c, strings.TrimSpace("move "+g.elsewhere())) },
	})
	for err == nil {
		var conn net.Conn
		if conn, err = timed.Accept(); err == nil {
			go g.handle(conn.(*idlenet.Conn))
		}
	}
	return err
}

// handle serves a client until it leaves, times out or breaks the protocol.
func (g *gateway) handle(conn *idlenet.Conn) {
	defer conn.Close()
	in := bufio.NewReaderSize(conn, maxLine)
	line, err := in.ReadSlice('\n')
	if err != nil {
		return
	}
	client, number, err := parseHello(string(line))
	if err == nil {
		err = g.arrive(client, session{number, conn})
	}
	if err != nil {
		fmt.Fprintf(conn, "bye %v\n", err)
		return
	}
	defer g.leave(client, number)
	conn.Enter(g.online)
	g.arrived(client, number)
	fmt.Fprintf(conn, "welcome %s\n", g.node)
	for {
		if line, err := in.ReadSlice('\n'); err != nil || string(line) != "beat\n" {
			return // what your clients say goes here; every byte restarts IdleTimeout
		}
	}
}

// parseHello returns what a client says about itself.
func parseHello(line string) (client string, session uint64, err error) {
	words := strings.Fields(line)
	if len(words) != 3 || words[0] != "hello" {
		return "", 0, fmt.Errorf("%q isn't like hello NAME SESSION", strings.TrimSpace(line))
	}
	session, err = strconv.ParseUint(words[2], 10, 64)
	return words[1], session, errors.Join(err, checkName(words[1]))
}

// checkName returns an error if a name can't be part of a NATS subject or of a line.
func checkName(name string) error {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	if name == "" || len(name) > 64 || strings.Trim(name, plain) != "" {
		return fmt.Errorf("the name is %q; it must have 1 to 64 letters, digits, '-' and '_'", name)
	}
	return nil
}

// arrive adds a client, unless there is a later session of it.
func (g *gateway) arrive(client string, s session) error {
	g.takeOver(client, s.number)
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, later := g.clients[client]; later {
		return errors.New("there is a later session")
	}
	g.clients[client] = s
	return nil
}

// takeOver ends an older session of a client. Its connection may be half-open, and the client would
// otherwise be found here until it times out.
func (g *gateway) takeOver(client string, number uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if old, ok := g.clients[client]; ok && old.number < number {
		delete(g.clients, client)
		old.conn.End("takeover")
	}
}

// leave removes a client, unless it has another session.
func (g *gateway) leave(client string, number uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.clients[client].number == number {
		delete(g.clients, client)
	}
}

// has reports whether a client is connected to this node.
func (g *gateway) has(client string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, ok := g.clients[client]
	return ok
}

// setLimits applies limits to all clients, open connections included. If the text isn't valid, the
// limits stay as they are.
func (g *gateway) setLimits(text string) error {
	l, err := parseLimits(text)
	if handshake, online := l.policies(); err == nil {
		err = errors.Join(g.tracker.SetPolicy(handshake), g.online.SetPolicy(online))
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil {
		g.refused = err.Error()
		return err
	}
	g.limits, g.refused = l, ""
	return nil
}
