package idledebug

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/idlewheel/idlewheel/idle"
)

// TestAccess asks from here and there, by good and bad names of the host.
func TestAccess(t *testing.T) {
	for _, c := range []struct {
		peer, host, header string
		ok                 bool
	}{
		{"127.0.0.1:1", "localhost:6060", "", true},
		{"127.0.0.1:1", "LOCALHOST", "", true},
		{"127.9.9.9:1", "127.0.0.1:6060", "", true},
		{"[::1]:1", "[::1]:6060", "", true},
		{"[::1]:1", "[::1]", "", true},
		{"[::ffff:127.0.0.1]:1", "localhost", "", true},
		{"192.0.2.1:1", "localhost:6060", "", false},
		{"192.0.2.1:1", "localhost:6060", "X-Forwarded-For: 127.0.0.1", false},
		{"127.0.0.1:1", "localhost:6060", "X-Forwarded-For: 127.0.0.1", false},
		{"127.0.0.1:1", "localhost:6060", "X-Forwarded-Proto: https", false},
		{"127.0.0.1:1", "localhost:6060", "X-Forwarded-Port: 443", false},
		{"127.0.0.1:1", "localhost:6060", "X-Client-IP: 127.0.0.1", false},
		{"127.0.0.1:1", "localhost:6060", "X-Real-IP: 127.0.0.1", false},
		{"127.0.0.1:1", "localhost:6060", "True-Client-IP: 127.0.0.1", false},
		{"127.0.0.1:1", "localhost:6060", "CF-Connecting-IP: 127.0.0.1", false},
		{"127.0.0.1:1", "localhost:6060", "Forwarded: for=127.0.0.1", false},
		{"127.0.0.1:1", "localhost:6060", "Via: 1.1 proxy", false},
		{"127.0.0.1:1", "rebound.example:6060", "", false},
		{"127.0.0.1:1", "localhost.rebound.example:6060", "", false},
		{"127.0.0.1:1", "127.0.0.1.rebound.example", "", false},
		{"127.0.0.1:1", "192.0.2.1:6060", "", false},
		{"127.0.0.1:1", "", "", false},
		{"@", "localhost", "", false},
		{"", "localhost", "", false},
	} {
		withSite(t, Options{}, func(s *site) {
			for _, target := range []string{"/", "/page.js", "/api/state"} {
				r := request("GET", target)
				r.RemoteAddr, r.Host = c.peer, c.host
				if name, value, ok := strings.Cut(c.header, ": "); ok {
					r.Header.Set(name, value)
				}
				if status, _ := s.serve(r); (status == http.StatusOK) != c.ok || !c.ok && status != http.StatusForbidden {
					s.Errorf("%s from %q with Host %q and %q: %d", target, c.peer, c.host, c.header, status)
				}
			}
		})
	}
}

func TestAuthorize(t *testing.T) {
	allow := func(r *http.Request) bool { return r.Header.Get("Key") == "right" }
	withSite(t, Options{Authorize: allow}, func(s *site) {
		s.wantError(request("GET", "/api/state"), http.StatusForbidden, "Authorize")
		r := request("GET", "/api/state")
		r.RemoteAddr, r.Host = "192.0.2.1:1", "idle.example"
		r.Header.Set("Key", "right")
		if status, text := s.serve(r); status != http.StatusOK {
			s.Errorf("%d, %s", status, text)
		}
	})
}

// TestMethods: only GET and HEAD are answered.
func TestMethods(t *testing.T) {
	withSite(t, Options{}, func(s *site) {
		for _, target := range []string{"/", "/page.js", "/api/state", "/api/connections", "/none"} {
			for _, method := range []string{"POST", "PUT", "DELETE"} {
				s.wantError(request(method, target), http.StatusMethodNotAllowed, "it must be GET")
			}
		}
		if status, _ := s.serve(request("HEAD", "/api/state")); status != http.StatusOK {
			s.Errorf("HEAD: %d", status)
		}
	})
}

// TestHeaders looks at those of all answers.
func TestHeaders(t *testing.T) {
	withSite(t, Options{}, func(s *site) {
		for _, target := range []string{"/", "/index.html", "/page.css", "/page.js", "/icon.svg", "/api/state", "/none"} {
			w := httptest.NewRecorder()
			s.h.ServeHTTP(w, request("GET", target))
			for name, want := range map[string]string{
				"Content-Security-Policy": "default-src 'self'", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store",
			} {
				if got := w.Header().Get(name); !strings.HasPrefix(got, want) {
					s.Errorf("%s: %s is %q", target, name, got)
				}
			}
			if !strings.Contains(w.Header().Get("Content-Security-Policy"), "frame-ancestors 'none'") {
				s.Errorf("%s can be framed", target)
			}
			kind := w.Header().Get("Content-Type")
			if want := map[string]string{"/": "text/html", "/page.js": "text/javascript", "/none": "application/json"}[target]; !strings.HasPrefix(kind, want) || kind == "" {
				s.Errorf("%s: Content-Type is %q", target, kind)
			}
		}
	})
}

// TestPrefix follows redirects to the page as a browser does, and looks for what it
// refers to.
func TestPrefix(t *testing.T) {
	withSite(t, Options{}, func(s *site) {
		for _, c := range []struct{ pattern, prefix, target string }{
			{"/", "", "/?a=b"},
			{"/debug/idle/", "/debug/idle", "/debug/idle/?a=b"},
			{"/debug/idle/", "/debug/idle", "/debug/idle?a=b"},
			{"/debug/idle", "/debug/idle", "/debug/idle?a=b"}, // a mux that does not redirect
			{"/debug/idle/", "/debug/idle/", "/debug/idle/?a=b"},
			{"/debug/idle/", "/debug/idle/", "/debug/idle?a=b"},
			{"/a%3fb/", "/a?b", "/a%3fb?a=b"},
			{"/a%20b/", "/a b", "/a%20b?a=b"},
		} {
			mux := http.NewServeMux()
			mux.Handle(c.pattern, http.StripPrefix(c.prefix, s.h))
			if !strings.HasSuffix(c.pattern, "/") {
				mux.Handle(c.pattern+"/", http.StripPrefix(c.prefix, s.h))
			}
			at := request("GET", c.target).URL
			for range 3 {
				w := httptest.NewRecorder()
				mux.ServeHTTP(w, request("GET", at.RequestURI()))
				if w.Code == http.StatusOK {
					break
				}
				to, err := at.Parse(w.Header().Get("Location"))
				if w.Code/100 != 3 || err != nil {
					s.Errorf("%+v: %s answers %d, %v", c, at, w.Code, err)
					break
				}
				at = to
			}
			if at.RawQuery != "a=b" {
				s.Errorf("%+v: the page is at %s", c, at)
			}
			for _, file := range []string{"", "page.css", "api/state"} {
				to, err := at.Parse(file)
				if err != nil {
					s.Fatal(err)
				}
				w := httptest.NewRecorder()
				mux.ServeHTTP(w, request("GET", to.RequestURI()))
				if w.Code != http.StatusOK {
					s.Errorf("%+v: %s answers %d", c, to, w.Code)
				}
			}
		}
	})
}

func TestNewErrors(t *testing.T) {
	tracker, err := idle.New(idle.Policy{IdleTimeout: 1e9}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tracker.Close()
	for want, trackers := range map[string]map[string]*idle.Tracker{
		"trackers is empty":         nil,
		"before OnBoot":             {"main": tracker, "chat": nil},
		`trackers[""] has no name;`: {"": tracker},
	} {
		if h, err := New(trackers, nil); h != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, %v; want %q", h, err, want)
		}
	}
}
