package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

// Patience is how long a client waits for an answer, which is longer than any stall.
const Patience = time.Minute

// ClientTLS is the client's side of TLS. It does not look at the certificate, which is made up.
func ClientTLS() *tls.Config { return &tls.Config{InsecureSkipVerify: true} }

// DialWeb connects to a server of HTTP, with TLS or HTTP/2 if its kind has that.
func DialWeb(ctx context.Context, kind, address string) (*http.ClientConn, error) {
	tr := &http.Transport{TLSClientConfig: ClientTLS(), Protocols: new(http.Protocols), ExpectContinueTimeout: time.Second}
	tr.Protocols.SetHTTP1(kind != HTTP2)
	tr.Protocols.SetHTTP2(kind == HTTP2)
	scheme := "http"
	if hasTLS(kind) {
		scheme = "https"
	}
	return tr.NewClientConn(ctx, scheme, address)
}

// A Client is a connection to a server under test.
type Client struct {
	Raw net.Conn         // to an echo server
	web *http.ClientConn // to others
}

// Dial connects to a server. With the kind Net it makes a plain connection, to whatever server.
func Dial(kind, address string) (c *Client, err error) {
	c = new(Client)
	if kind == Net || kind == Gnet {
		c.Raw, err = net.DialTimeout("tcp", address, Patience)
		return c, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	c.web, err = DialWeb(ctx, kind, address)
	return c, err
}

// Close closes the connection.
func (c *Client) Close() {
	if c.Raw != nil {
		c.Raw.Close()
	} else {
		c.web.Close()
	}
}

// Exchange sends a request, and checks the answer. Over HTTP/2, requests may be made side by side.
func (c *Client) Exchange() (err error) {
	b := make([]byte, len(Greeting))
	if c.Raw != nil {
		c.Raw.SetReadDeadline(time.Now().Add(Patience))
		if _, err = io.WriteString(c.Raw, Greeting); err == nil {
			_, err = io.ReadFull(c.Raw, b)
		}
	} else {
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		defer cancel()
		req, _ := http.NewRequestWithContext(ctx, "GET", "http://localhost/", nil)
		var resp *http.Response
		if resp, err = c.web.RoundTrip(req); err == nil {
			b, err = io.ReadAll(resp.Body)
			resp.Body.Close()
		}
	}
	if err == nil && string(b) != Greeting {
		err = fmt.Errorf("%q comes back", b)
	}
	return err
}

// IsOpen waits until the server has ended the connection, or until a time, and reports whether it's
// open then.
func (c *Client) IsOpen(by time.Time) bool {
	if c.Raw != nil {
		c.Raw.SetReadDeadline(by)
		_, err := io.Copy(io.Discard, c.Raw)
		return errors.Is(err, os.ErrDeadlineExceeded)
	}
	for time.Now().Before(by) {
		if c.web.Err() != nil {
			return false
		}
		time.Sleep(2 * time.Millisecond)
	}
	return true
}
