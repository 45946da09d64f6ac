package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

func hijackLives() []life {
	return []life{
		{"answers pings", 4, answer(upgrade)},
		{"answers pings late", 2, answerLate},
		{"ignores pings", 3, ignore(upgrade)},
		{"leaves at once", 2, leaveAtOnce},
		{"silent from the start", 1, silentFromStart(idle.ReasonReadTotal)},
	}
}

// upgradePatience is longer than any stall; the server's limits are not.
const upgradePatience = time.Minute

// upgrade asks for the connection to be handed over and pinged, as WebSockets
// are.
func upgrade(c *client) (span, error) {
	begin := time.Now()
	if _, err := c.Write([]byte("GET " + pathPings + " HTTP/1.1\r\nHost: soak\r\nConnection: Upgrade\r\nUpgrade: pings\r\n\r\n")); err != nil {
		return span{begin, begin}, err
	}
	c.SetReadDeadline(time.Now().Add(upgradePatience))
	// What the buffer may swallow is a first ping, if this is half a limit late.
	// Then the second is answered.
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	since := span{begin, time.Now()}
	if err == nil && res.StatusCode != http.StatusSwitchingProtocols {
		err = fmt.Errorf("got %s", res.Status)
	}
	return since, err
}

// answerLate lets a first ping go by, and answers just before its limit.
func answerLate(ctx context.Context, c *client) outcome {
	since, err := upgrade(c)
	p := newPulse(staleAfter, since.from)
	for err == nil {
		if !pause(ctx, time.Until(p.last.Add(c.between(staleAfter-150*time.Millisecond, staleAfter-20*time.Millisecond)))) {
			return c.leave(p)
		}
		_, err = c.say(p, []byte{pong})
		if p.overdue {
			return outcome{verdict: left, unsure: true}
		}
	}
	return c.cut(p, err)
}
