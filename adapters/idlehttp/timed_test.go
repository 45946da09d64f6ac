package idlehttp

import (
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/idle"
)

// TestTimedGoexit: a handler that ends its goroutine sends no answer, with a HandlerTimeout as without.
func TestTimedGoexit(t *testing.T) {
	httpsuite.Both(t, func(t *testing.T, secure bool) {
		for _, limits := range []Timeouts{{}, {HandlerTimeout: time.Minute}} {
			synctest.Test(t, func(t *testing.T) {
				s := startInMemory(t, secure, limits, func(w http.ResponseWriter, r *http.Request) { runtime.Goexit() })
				c := s.Dial()
				c.Send(httpsuite.Get("/"))
				c.WantClosed()
			})
		}
	})
}

// TestLateHandler goes on with its request and its ResponseWriter when it has been late. The race detector finds what it shares with the server.
func TestLateHandler(t *testing.T) {
	const limit = time.Second
	form := new(strings.Builder)
	parts := multipart.NewWriter(form)
	file, _ := parts.CreateFormFile("file", "name")
	io.WriteString(file, strings.Repeat("x", 1<<10))
	parts.Close()
	post := func(body string) string {
		return strings.Replace(httpsuite.Post(len(form.String())), "\r\n\r\n", "\r\nContent-Type: "+parts.FormDataContentType()+"\r\n\r\n", 1) + body
	}
	for name, test := range map[string]struct {
		request string
		h       http.HandlerFunc
	}{
		"body replaced": {httpsuite.Get("/"), func(w http.ResponseWriter, r *http.Request) {
			r.Body = http.MaxBytesReader(w, r.Body, 1)
			time.Sleep(2 * limit)
		}},
		"controller": {post(""), func(w http.ResponseWriter, r *http.Request) {
			rc := http.NewResponseController(w)
			for range 40 {
				time.Sleep(limit / 10)
				rc.SetReadDeadline(time.Now())
				rc.SetWriteDeadline(time.Now())
				rc.EnableFullDuplex()
				w.(http.CloseNotifier).CloseNotify() //lint:ignore SA1019 handlers may still use it
			}
		}},
		"form": {post(form.String()), func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(2 * limit)
			r.ParseMultipartForm(1)
		}},
		"form early": {post(form.String()), func(w http.ResponseWriter, r *http.Request) {
			r.ParseMultipartForm(1)
			time.Sleep(2 * limit)
			if r.MultipartForm == nil || r.MultipartForm.File["file"] == nil {
				t.Error("no form")
				return
			}
			f, err := r.MultipartForm.File["file"][0].Open()
			if err != nil {
				t.Error(err)
				return
			}
			f.Close()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubbles(t, func(t *testing.T, secure bool) {
				s := startInMemory(t, secure, httpsuite.Only(limit, "HandlerTimeout"), test.h)
				c := s.Dial()
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
	inBubbles(t, func(t *testing.T, secure bool) {
		s := startInMemory(t, secure, httpsuite.Only(limit, "HandlerTimeout"), func(w http.ResponseWriter, r *http.Request) {
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
		})
		c := s.Dial()
		c.Send(httpsuite.Get("/"))
		time.Sleep(5 * limit)
		c.Send("ping")
		b, _ := io.ReadAll(c.In)
		if string(b) != "ping<nil>" {
			t.Errorf("%q", b)
		}
		s.WantNone()
	})
}

// TestTimedWriterHasAllMethods: with a HandlerTimeout too, a handler finds every method of net/http's own ResponseWriter.
func TestTimedWriterHasAllMethods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startInMemory(t, false, Timeouts{HandlerTimeout: time.Minute}, func(w http.ResponseWriter, r *http.Request) {
			wantAllMethods(t, w, w.(*timedHTTP1).writer.(*exchange).ResponseWriter)
		})
		s.Dial().Get("/")
	})
}
