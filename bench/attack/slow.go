package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"syscall"
	"time"
)

// Slow clients are honest: their bytes come and go steadily, and faster than
// they have to, but it takes them longer than a timeout of a whole request
// allows. Half of them upload, half of them download.

// slowness is how long a request of a slow client takes.
func (l *limits) slowness() time.Duration { return 2 * max(l.header, l.body, l.write) }

// slowBuffer gives a socket a receive buffer that does not hide from the server
// that the client is slow.
func slowBuffer(_, _ string, c syscall.RawConn) error { return setReceiveBuffer(c, 16<<10) }

// stepsPerSecond is how many pieces a slow client's bytes come and go in.
const stepsPerSecond = 20

// upload uploads slowly until ctx is done.
func (c *client) upload(ctx context.Context, l limits) {
	defer c.leave()
	step := strings.Repeat("x", max(1, 2*l.rate/stepsPerSecond))
	steps := int(l.slowness() * stepsPerSecond / time.Second)
	for pause(ctx, time.Second/stepsPerSecond) {
		begun := time.Now()
		err := c.uploadOnce(begun.Add(c.patience+l.slowness()), step, steps)
		c.done(begun, err)
		if err != nil {
			c.leave()
		}
	}
}

func (c *client) uploadOnce(deadline time.Time, step string, steps int) error {
	if err := c.come(deadline); err != nil {
		return err
	}
	if err := c.write(postHeader(steps * len(step))); err != nil {
		return err
	}
	for range steps {
		if err := c.write(step); err != nil {
			return err
		}
		time.Sleep(time.Second / stepsPerSecond)
	}
	return c.answer(2, everything)
}

// download downloads slowly until ctx is done. What is downloaded is much more
// than the buffers hold, or the server would not know that it is slow.
func (c *client) download(ctx context.Context, l limits) {
	defer c.leave()
	steps := int(l.slowness() * stepsPerSecond / time.Second)
	for pause(ctx, time.Second/stepsPerSecond) {
		begun := time.Now()
		err := c.come(begun.Add(c.patience + l.slowness()))
		if err == nil {
			err = c.get(filmSize, func(from io.Reader) (int64, error) { return takeIn(from, steps) })
		}
		c.done(begun, err)
		if err != nil {
			c.leave()
		}
	}
}

// takeIn reads a film in so many steps, a pause after each.
func takeIn(from io.Reader, steps int) (n int64, err error) {
	for {
		taken, err := io.CopyN(io.Discard, from, int64(filmSize/steps))
		n += taken
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		time.Sleep(time.Second / stepsPerSecond)
	}
}
