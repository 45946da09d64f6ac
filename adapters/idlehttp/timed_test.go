package idlehttp

import (
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/idle"
)

// TestAbort: a handler that ends its goroutine, or panics, sends no answer, with a HandlerTimeout as without.
func TestAbort(t *testing.T) {
	for name, abort := range map[string]func(){"Goexit": runtime.Goexit, "panic": func() { panic(http.ErrAbortHandler) }} {
		for _, limit := range []time.Duration{0, time.Minute} {
			t.Run(fmt.Sprint(name, " ", limit), func(t *testing.T) {
				inMemory(t, Timeouts{HandlerTimeout: limit}, func(http.ResponseWriter, *http.Request) { abort() }, func(t *testing.T, s *site, c *httpsuite.Client) {
					c.Send(httpsuite.Get("/"))
					c.WantClosed()
				})
			})
		}
	}
}

// TestLateHandler goes on with its request and its ResponseWriter when it has been late. The race detector finds what
// it shares with the server.
func TestLateHandler(t *testing.T) {
	const limit = time.Second
	form := new(strings.Builder)
	parts := multipart.NewWriter(form)
	file, _ := parts.CreateFormFile("file", "name")
	io.WriteString(file, strings.Repeat("x", 1<<10))
	parts.Close()
	post := strings.Replace(httpsuite.Post(len(form.String())), "\r\n\r\n", "\r\nContent-Type: "+parts.FormDataContentType()+"\r\n\r\n", 1)
	for name, test := range map[string]struct {
		request string
		h       http.HandlerFunc
	}{
		"body replaced": {httpsuite.Get("/"), func(w http.ResponseWriter, r *http.Request) {
			r.Body = http.MaxBytesReader(w, r.Body, 1)
			time.Sleep(2 * limit)
		}},
		"controller": {post, func(w http.ResponseWriter, r *http.Request) {
			rc := http.NewResponseController(w)
			for range 40 {
				time.Sleep(limit / 10)
				rc.SetReadDeadline(time.Now())
				rc.SetWriteDeadline(time.Now())
				rc.EnableFullDuplex()
				w.(http.CloseNotifier).CloseNotify() //lint:ignore SA1019 handlers may still use it
			}
		}},
		"form": {post + form.String(), func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(2 * limit)
			r.ParseMultipartForm(1)
		}},
		"form early": {post + form.String(), func(w http.ResponseWriter, r *http.Request) {
			r.ParseMultipartForm(1)
			time.Sleep(2 * limit)
			f, _, err := r.FormFile("file")
			if err != nil {
				t.Error(err)
				return
			}
			f.Close()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inMemory(t, httpsuite.Only(limit, "HandlerTimeout"), test.h, func(t *testing.T, s *site, c *httpsuite.Client) {
				c.Send(test.request)
				c.Refused(http.StatusServiceUnavailable)
				time.Sleep(4 * limit)
				s.WantOnly(1, "request", idle.ReasonPhase)
			})
		})
	}
}

// TestTimedHijack: HandlerTimeout ends with the request, so a handler that has hijacked the connection may go on.
func TestTimedHijack(t *testing.T) {
	const limit = time.Second
	inMemory(t, httpsuite.Only(limit, "HandlerTimeout"), func(w http.ResponseWriter, r *http.Request) {
		nc, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		time.Sleep(3 * limit)
		b := make([]byte, 4)
		_, err = io.ReadFull(rw, b)
		fmt.Fprint(nc, string(b), err)
		nc.Close()
	}, func(t *testing.T, s *site, c *httpsuite.Client) {
		c.Send(httpsuite.Get("/"))
		time.Sleep(5 * limit)
		c.Send("ping")
		if b, _ := io.ReadAll(c.In); string(b) != "ping<nil>" {
			t.Errorf("%q", b)
		}
		s.WantNone()
	})
}

// TestTimedHeader: the header of a handler that writes nothing is sent.
func TestTimedHeader(t *testing.T) {
	inMemory(t, Timeouts{HandlerTimeout: time.Minute}, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Own", "yes") }, func(t *testing.T, s *site, c *httpsuite.Client) {
		c.Send(httpsuite.Get("/"))
		if r := c.Response(); r.Header.Get("Own") != "yes" {
			t.Errorf("the header is %v", r.Header)
		}
	})
}
