package simserver

import (
	"crypto/tls"
	"io"
	"time"
)

// kinds2 are the kinds of HTTP/2 clients.
func kinds2(secure bool) (all []func(*Client)) {
	for _, kind := range []func(*talker){
		honest2, honest2, honest2, honest2, honest2, leaves2, badStream, badStream, idles2, noPreface, halfBlock, neverReads2,
	} {
		all = append(all, func(c *Client) {
			if t := talk(c, secure); t != nil {
				kind(t)
			}
		})
	}
	return all
}

// honest2 makes requests. Often the next ones come just when KeepAliveTimeout passes.
func honest2(t *talker) {
	for i := range 3 {
		if i > 0 {
			if t = talk(t.Client, t.secure); t == nil {
				return
			}
		}
		t.pace = time.Duration(t.Rand.IntN(2)*t.Rand.IntN(3000)) * time.Millisecond
		t.hello(usualWindow)
		for range 1 + t.Rand.IntN(6) {
			if !t.exchange() {
				break
			}
			pause := time.Duration(t.Rand.IntN(1500)) * time.Millisecond
			if t.Rand.IntN(2) == 0 {
				pause = limits.KeepAliveTimeout + time.Duration(t.Rand.IntN(40)-4)*Tick/8
			}
			time.Sleep(pause)
		}
		t.leave()
	}
}

// leaves2 leaves in the middle of a request or a response.
func leaves2(t *talker) {
	t.hello(usualWindow)
	t.open(order{t.NextID(), 100_000, 100 * time.Millisecond, "plain"}, true, false)
	t.Pause(400)
	if t.Rand.IntN(2) == 0 {
		t.Conn.Reset()
	} else {
		t.Conn.Close()
	}
	<-t.over
}

// badStream has one stream that stops, beside others that are served.
func badStream(t *talker) {
	t.hello(usualWindow)
	o := order{t.NextID(), 10, 0, "plain"}
	var bad *call
	limit, more := limits.BodyTimeout, time.Duration(0)
	since := time.Now()
	switch kind := t.Rand.IntN(5); kind {
	case 0, 1, 2: // the body stops
		if kind == 0 {
			o.kind = "hints"
		}
		if bad = t.open(o, true, false); bad == nil {
			return
		}
		t.data(bad, 100, false)
		since = time.Now()
		if kind == 1 { // padding isn't part of the body
			go func() {
				for t.write(frame{kind: typeData, flags: flagPadded, stream: bad.stream, payload: append([]byte{50}, make([]byte, 50)...)}) == nil {
					time.Sleep(time.Second)
					select {
					case <-bad.done:
						return
					default:
					}
				}
			}()
		}
	case 3: // the window is used up
		o.size = 200_000
		_, limit, more = t.writeLimit(usualWindow)
		if bad = t.open(o, false, true); bad == nil {
			return
		}
	case 4: // the response has begun, so the client may be silent
		o.kind = "hangs"
		if bad = t.open(o, true, false); bad == nil {
			return
		}
		limit = handlerTimeout
		if t.Seed%2 != 0 {
			time.Sleep(30 * time.Second)
			t.data(bad, 10, true)
			t.wantResponse(bad)
			t.leave()
			return
		}
	}
	for {
		select {
		case <-bad.done:
			late := bad.ended && bad.status == "408"
			switch took := bad.endedAt.Sub(since); {
			case !bad.reset && !late && t.Executed(bad.id) && t.Drained().IsZero():
				t.Errorf("%s, stream %d: ended without a reset (%v)", bad.path(), bad.stream, t.End().Err)
			case late && limit != limits.BodyTimeout:
				t.Errorf("%s, stream %d, was answered with 408", bad.path(), bad.stream)
			case bad.reset && bad.code != codeInternal:
				t.Errorf("%s, stream %d, was reset with %d", bad.path(), bad.stream, bad.code)
			case (bad.reset || late) && (took < limit || took > limit+more+Late):
				t.Errorf("%s, stream %d, ended after %v, want %v to %v", bad.path(), bad.stream, took, limit, limit+more+Late)
			}
			t.leave()
			return
		case <-time.After(time.Second):
			if time.Since(since) > limit+more+Late {
				t.Errorf("%s, stream %d, is open after %v", bad.path(), bad.stream, time.Since(since))
				t.leave()
				return
			}
			if !t.isTold() {
				if c := t.open(order{t.NextID(), 100, 0, "plain"}, false, false); c != nil {
					t.wantResponse(c)
				}
			}
		}
	}
}

// idles2 makes some requests and then only sends PINGs.
func idles2(t *talker) {
	if t.hello(usualWindow); !t.exchange() {
		t.leave()
		return
	}
	t.mu.Lock()
	since := t.rested
	t.mu.Unlock()
	go func() {
		for t.write(frame{kind: typePing, payload: make([]byte, 8)}) == nil {
			time.Sleep(300 * time.Millisecond)
		}
	}()
	t.WantEnd(since, "KeepAliveTimeout", limits.KeepAliveTimeout, 0)
	<-t.over
}

func noPreface(t *talker) {
	since := time.Now()
	switch {
	case t.Rand.IntN(2) == 0:
	case t.secure:
		t.nc.(*tls.Conn).Handshake()
	default: // ten bytes, which might begin an HTTP/1 request
		io.WriteString(t.nc, preface[:10])
		t.WantEnd(since, "HeaderTimeout", limits.HeaderTimeout, 0)
		return
	}
	t.WantEnd(since, "HandshakeTimeout", limits.HandshakeTimeout, LateAddr)
}

// halfBlock begins a header block and doesn't end it. To the server that's no request.
func halfBlock(t *talker) {
	if t.hello(usualWindow); !t.exchange() {
		t.leave()
		return
	}
	t.mu.Lock()
	since := t.rested
	t.mu.Unlock()
	t.write(frame{kind: typeHeaders, stream: t.lastID + 1, payload: []byte{0x82}})
	t.writing.Lock()
	t.mute = true
	t.writing.Unlock()
	t.WantEnd(since, "KeepAliveTimeout", limits.KeepAliveTimeout, 0)
	<-t.over
}

// neverReads2 opens the flow-control windows wide and stops reading.
func neverReads2(t *talker) {
	t.pace = time.Minute
	t.hello(1 << 30)
	t.write(windowUpdate(0, 1<<30))
	since := time.Now()
	t.open(order{t.NextID(), 1_000_000, 0, "plain"}, false, false)
	setting, limit, more := t.writeLimit(Buffer + 32<<10)
	t.WantEnd(since, setting, limit, more)
	<-t.over
}
