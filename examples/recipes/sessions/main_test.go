package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

func TestSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, err := newSessions()
		if err != nil {
			t.Fatal(err)
		}
		defer all.tracker.Close()
		routes := all.routes()
		request := func(method, target string, cookies ...*http.Cookie) *http.Response {
			t.Helper()
			r := httptest.NewRequest(method, target, nil)
			for _, c := range cookies {
				r.AddCookie(c)
			}
			w := httptest.NewRecorder()
			routes.ServeHTTP(w, r)
			return w.Result()
		}
		login := func() *http.Cookie { return request("POST", "/login?name=gopher").Cookies()[0] }
		want := func(what string, cookie *http.Cookie, status int) {
			t.Helper()
			if got := request("GET", "/", cookie).StatusCode; got != status {
				t.Errorf("%s: the status is %d", what, got)
			}
		}

		begun := time.Now()
		used, unused, left := login(), login(), login()
		request("POST", "/logout", left)
		want("a session that was left", left, 401)
		for range 35 {
			time.Sleep(20 * time.Minute)
			want("a session in use", used, 200)
		}
		want("a session that wasn't used", unused, 401)
		time.Sleep(12*time.Hour + time.Second - time.Since(begun))
		want("a session of more than 12 hours", used, 401)
		if n := len(all.byID); n != 0 {
			t.Errorf("%d sessions are left", n)
		}
	})
}
