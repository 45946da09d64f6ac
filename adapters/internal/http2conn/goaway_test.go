package http2conn

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Frames of the tests: the SETTINGS that a server begins with, and the client's answer
// to our PING.
func serverSettings() []byte { return bytesOf(typeSettings, 0, 0, nil) }
func pong() []byte           { return bytesOf(typePing, flagAck, 0, []byte(pingData)) }

func goAwayOf(last uint32) []byte {
	return bytesOf(typeGoAway, 0, 0, append(number(last), number(0)...))
}

// farewell is what Announce sends if the server accepts all streams.
func farewell() []byte { return farewellOf(allStreams) }

// farewellOf is farewell after a GOAWAY of the server's.
func farewellOf(last uint32) []byte {
	return append(goAwayOf(last), bytesOf(typePing, 0, 0, []byte(pingData))...)
}

// wantWritten checks what the client has got so far.
func wantWritten(t *testing.T, when string, got *bytes.Buffer, want ...[]byte) {
	t.Helper()
	synctest.Wait()
	if all := slices.Concat(want...); !bytes.Equal(got.Bytes(), all) {
		t.Errorf("%s, the client gets\n%q, want\n%q", when, got.Bytes(), all)
	}
	got.Reset()
}

// written returns what arrives at the client.
func written(client io.Reader) *bytes.Buffer {
	var got bytes.Buffer
	go io.Copy(struct{ io.Writer }{&got}, client) // not by ReadFrom, which would not bear Reset
	return &got
}

// The last GOAWAY does not wait for what the server is writing, and does not come in between.
func TestGoAway(t *testing.T) {
	rig(t, func(t *testing.T, client net.Conn, c *Conn, h *fakeHost) {
		got := written(client)
		c.receive(request(3, false))
		c.GoAway()
		wantWritten(t, "before the server's SETTINGS", got)
		c.Write(serverSettings())
		c.writing <- struct{}{}
		c.GoAway()
		<-c.writing
		c.Write(response(3)[:5])
		c.GoAway()
		c.Write(response(3)[5:])
		wantWritten(t, "while the server writes", got, serverSettings(), response(3))
		c.GoAway()
		wantWritten(t, "in the end", got, goAwayOf(3))
	})
}

// After a GOAWAY of the server's, ours accept no more streams than that one, whenever it comes.
func TestGoAwayAfterTheServers(t *testing.T) {
	theirs := goAwayOf(1)
	for split := range len(theirs) + 1 {
		rig(t, func(t *testing.T, client net.Conn, c *Conn, h *fakeHost) {
			got := written(client)
			c.receive(request(1, true))
			c.receive(request(3, true))
			c.Write(serverSettings())
			c.Write(theirs[:split])
			go c.Announce()
			synctest.Wait()
			c.Write(theirs[split:])
			if split > 0 {
				wantWritten(t, "in the end", got, serverSettings(), theirs, farewellOf(1))
			} else {
				wantWritten(t, "in the end", got, serverSettings(), farewell(), theirs)
			}
			c.GoAway()
			wantWritten(t, "at last", got, goAwayOf(1))
		})
	}
}

// The first GOAWAY, which accepts all streams, is not written after the last one, even if that one
// comes before flush runs.
func TestGoAwayBeforeFlush(t *testing.T) {
	rig(t, func(t *testing.T, client net.Conn, c *Conn, h *fakeHost) {
		got := written(client)
		c.Write(serverSettings())
		c.receive(request(1, true))
		c.pending = true
		c.GoAway()
		c.flush()
		wantWritten(t, "in the end", got, serverSettings(), farewell(), goAwayOf(1))
	})
}

// The first GOAWAY comes after the server's SETTINGS and between two of its frames,
// wherever its writes are split, also if it never pauses there.
func TestAnnounceComesBetweenFrames(t *testing.T) {
	block := slices.Concat(bytesOf(typeHeaders, 0, 1, []byte("\x88")), bytesOf(typeContinuation, flagEndHeaders, 1, []byte("\x61\x96date")))
	promise := slices.Concat(bytesOf(typePushPromise, 0, 1, append(number(2), 0x82)), bytesOf(typeContinuation, flagEndHeaders, 1, []byte("\x84")))
	data := bytesOf(typeData, 0, 1, make([]byte, 10))
	var all []byte
	var boundaries []int
	for _, b := range [][]byte{serverSettings(), promise, block, data} {
		all = append(all, b...)
		boundaries = append(boundaries, len(all))
	}
	for split := range len(all) {
		rig(t, func(t *testing.T, client net.Conn, c *Conn, h *fakeHost) {
			got := written(client)
			c.receive(request(1, true))
			c.Write(all[:split])
			go c.Announce()
			synctest.Wait()
			c.Write(all[split:])
			synctest.Wait()
			i := slices.IndexFunc(boundaries, func(at int) bool { return at >= split })
			at := boundaries[i]
			if at > split { // inserted by the Write, at the end of what it has whole
				at = len(all)
			}
			wantWritten(t, "", got, all[:at], farewell(), all[at:])
		})
	}
}

// Announce waits for the client's answer, but not for long, and only the first time.
func TestAnnounceWaits(t *testing.T) {
	for name, test := range map[string]struct {
		answer []byte
		end    bool
		want   time.Duration
	}{
		"silent":         {nil, false, time.Second},
		"another answer": {bytesOf(typePing, flagAck, 0, make([]byte, 8)), false, time.Second},
		"answer":         {pong(), false, 300 * time.Millisecond},
		"end":            {nil, true, 300 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			rig(t, func(t *testing.T, client net.Conn, c *Conn, h *fakeHost) {
				got := written(client)
				go serve(io.Discard, c)
				c.Write(serverSettings())
				go func() {
					time.Sleep(300 * time.Millisecond)
					client.Write(test.answer)
					if test.end {
						c.End()
					}
				}()
				begun := time.Now()
				c.Announce()
				if took := time.Since(begun); took != test.want {
					t.Errorf("it takes %v", took)
				}
				again := time.Now()
				c.Announce()
				if test.want < time.Second && time.Since(again) != 0 {
					t.Errorf("again, it takes %v", time.Since(again))
				}
				wantWritten(t, "twice", got, serverSettings(), farewell())
			})
		})
	}
}

// A client that does not read for a while gets a GOAWAY whole, and what the server sends
// after it, with TLS too.
func TestAnnounceToAFullBuffer(t *testing.T) {
	for name, secure := range map[string]bool{"plain": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			rig(t, func(t *testing.T, client net.Conn, c *Conn, h *fakeHost) {
				if secure {
					config := identity(t)
					c.Conn = tls.Server(c.Conn, config)
					client = tls.Client(client, &tls.Config{InsecureSkipVerify: true})
					go client.(*tls.Conn).Handshake()
					if err := c.Conn.(*tls.Conn).Handshake(); err != nil {
						t.Fatal(err)
					}
				}
				go c.Write(serverSettings())
				got := make([]byte, len(serverSettings())+len(farewell())+len(response(1)))
				io.ReadFull(client, got[:len(serverSettings())])
				c.receive(request(1, true))
				go c.Announce()
				synctest.Wait()
				if !secure {
					io.ReadFull(client, got[len(serverSettings()):][:5]) // it stops in the middle of the frame
				}
				time.Sleep(time.Minute)
				wrote := make(chan error, 1)
				go func() { _, err := c.Write(response(1)); wrote <- err }()
				rest := got[len(serverSettings()):]
				if !secure {
					rest = rest[5:]
				}
				client.SetReadDeadline(time.Now().Add(time.Minute))
				if _, err := io.ReadFull(client, rest); err != nil {
					t.Errorf("reading: %v", err)
				}
				if err := <-wrote; err != nil {
					t.Errorf("writing: %v", err)
				}
				if want := slices.Concat(serverSettings(), farewell(), response(1)); !bytes.Equal(got, want) {
					t.Errorf("the client gets\n%q, want\n%q", got, want)
				}
			})
		})
	}
}

// identity returns a configuration for a server of TLS.
func identity(t *testing.T) *tls.Config {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{cert}, PrivateKey: key}}}
}

// After the last GOAWAY the server gets no request any more, not even one that has been
// read into the buffer: its client is told that it is not served.
func TestNothingIsServedAfterGoAway(t *testing.T) {
	for _, size := range []int{100, 2 * bufferSize} { // reads by the buffer, and without it
		rig(t, func(t *testing.T, client net.Conn, c *Conn, h *fakeHost) {
			written(client)
			c.Write(serverSettings())
			go client.Write(append(request(1, true), request(3, true)...))
			io.ReadFull(c, make([]byte, len(request(1, true)))) // the other one is in the buffer
			c.GoAway()
			go client.Write(request(5, true))
			time.AfterFunc(time.Second, func() { client.Close() })
			if n, err := c.Read(make([]byte, size)); n > 0 || err != io.EOF {
				t.Errorf("%d bytes are read, then %v", n, err)
			}
		})
	}
}
