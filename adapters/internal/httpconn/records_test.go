package httpconn

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/idle"
)

// record returns a record with n bytes after its header.
func record(n int) string {
	return "\x17\x03\x03" + string([]byte{byte(n >> 8), byte(n)}) + strings.Repeat("x", n)
}

// TestRecords: however the records are cut into reads, the bytes for the application are
// counted.
func TestRecords(t *testing.T) {
	const want = 1 + 0 + 0 + 0 + 16384 + 983
	text := record(18) + record(17) + record(0) + record(5) + record(16384+17) + record(1000)
	for size := 1; size <= len(text); size += 1 + size/3 {
		r, got := records{overhead: 17}, 0
		for rest := text; rest != ""; {
			n := min(size, len(rest))
			got += r.payload([]byte(rest[:n]))
			rest = rest[n:]
		}
		if got != want || r.left != 0 || r.seen&counter != 0 {
			t.Errorf("in pieces of %d: %d bytes, want %d; left with %+v", size, got, want, r)
		}
	}
}

// written is a connection that keeps what is written.
type written struct {
	net.Conn
	b []byte
}

func (w *written) Write(b []byte) (int, error) {
	w.b = append(w.b, b...)
	return w.Conn.Write(b)
}

// TestOverhead compares overheadOf with what crypto/tls writes, with each cipher suite.
func TestOverhead(t *testing.T) {
	for _, suite := range append(tls.CipherSuites(), tls.InsecureCipherSuites()...) {
		for _, version := range suite.SupportedVersions {
			t.Run(tls.VersionName(version)+" "+suite.Name, func(t *testing.T) {
				_, config := httpsuite.Identity()
				config, serverConfig := config.Clone(), httpsuite.ServerTLS().Clone()
				for _, c := range []*tls.Config{serverConfig, config} {
					c.MinVersion, c.MaxVersion, c.CipherSuites = version, version, []uint16{suite.ID}
				}
				here, there := net.Pipe()
				defer here.Close()
				w := &written{Conn: here}
				client, server := tls.Client(w, config), tls.Server(there, serverConfig)
				go io.Copy(io.Discard, server)
				if err := client.Handshake(); err != nil {
					t.Skip(err)
				}
				for _, n := range []int{1, 2, 15, 16, 100, 1000} {
					w.b = nil
					client.Write(make([]byte, n))
					r := records{overhead: overheadOf(client.ConnectionState())}
					most := n
					if strings.Contains(suite.Name, "CBC") || strings.Contains(suite.Name, "RC4") {
						most = 2*n + 60 // of two records for TLS 1.0
					}
					if got := r.payload(w.b); got < n || got > most {
						t.Errorf("%d bytes count as %d", n, got)
					}
				}
			})
		}
	}
}

// TestRateOfRecords: the rate of a body in records of one byte is that of the body.
func TestRateOfRecords(t *testing.T) {
	for overhead, late := range map[uint8]bool{0: false, 17: true} {
		limits := unlimited()
		limits.BodyRate = idle.Rate{BytesPerSecond: 240, Grace: 5 * time.Second}
		inBubble(t, limits, func(t *testing.T, l *Listener, c *Conn, w *wire) {
			c.records.overhead = overhead
			c.HeaderRead()
			sent := make(chan bool)
			go func() {
				defer close(sent)
				for range 60 * 200 { // 200 bytes a second
					w.sends(record(18))
					time.Sleep(5 * time.Millisecond)
				}
				w.Close()
			}()
			_, err := io.Copy(io.Discard, struct{ io.Reader }{c})
			<-sent
			var timeout *idle.TimeoutError
			if errors.As(err, &timeout) != late {
				t.Errorf("overhead %d: the body ends with %v", overhead, err)
			}
		})
	}
}
