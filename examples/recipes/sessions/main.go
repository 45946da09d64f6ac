// Command sessions keeps logins in memory. They end 30 minutes after their last request, and
// 12 hours after the login at the latest. No socket is involved: a session is anything with an
// idle.Conn in it.
//
//	go -C examples/recipes run ./sessions
//	curl -i -X POST 'http://127.0.0.1:8080/login?name=gopher'
//	curl -i -b session=... http://127.0.0.1:8080/
package main

import (
	"crypto/rand"
	"fmt"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlehttp"
	"github.com/idlewheel/idlewheel/idle"
)

func main() {
	all, err := newSessions()
	if err != nil {
		log.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:8080")
	if err != nil {
		log.Fatal(err)
	}
	log.Print("serving on http://", ln.Addr())
	log.Fatal(idlehttp.Serve(&http.Server{Handler: all.routes()}, ln, idlehttp.Timeouts{}))
}

// A session is one login.
type session struct {
	idle.Conn
	id, name string
	using    sync.Mutex // requests of one session may come side by side
}

// sessions are all logins.
type sessions struct {
	tracker *idle.Tracker
	hooks   idle.Hooks
	mu      sync.Mutex
	byID    map[string]*session
}

func newSessions() (*sessions, error) {
	tracker, err := idle.New(idle.Policy{IdleTimeout: 30 * time.Minute, MaxAge: 12 * time.Hour}, nil)
	if err != nil {
		return nil, err
	}
	all := &sessions{tracker: tracker, byID: map[string]*session{}}
	all.hooks.Expire = func(owner any, _ *idle.TimeoutError) { all.forget(owner.(*session)) }
	return all, nil
}

// login begins a session.
func (all *sessions) login(name string) (*session, error) {
	s := &session{id: rand.Text(), name: name}
	all.mu.Lock()
	all.byID[s.id] = s
	all.mu.Unlock()
	if err := all.tracker.Track(&s.Conn, s, &all.hooks); err != nil {
		all.forget(s)
		return nil, err
	}
	return s, nil
}

// use returns a session that lives, and begins its IdleTimeout again.
func (all *sessions) use(id string) (*session, bool) {
	all.mu.Lock()
	s, ok := all.byID[id]
	all.mu.Unlock()
	if !ok {
		return nil, false
	}
	s.using.Lock()
	defer s.using.Unlock()
	s.Touch()
	return s, s.Deliver() // it may be ending just now
}

// forget removes a session that has ended.
func (all *sessions) forget(s *session) {
	all.mu.Lock()
	defer all.mu.Unlock()
	delete(all.byID, s.id)
}

func (all *sessions) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /login", func(w http.ResponseWriter, r *http.Request) {
		s, err := all.login(r.FormValue("name"))
		if err != nil {
			http.Error(w, "try again later", http.StatusServiceUnavailable)
			return
		}
		http.SetCookie(w, &http.Cookie{Name: "session", Value: s.id, HttpOnly: true, SameSite: http.SameSiteLaxMode})
	})
	mux.HandleFunc("POST /logout", all.with(func(w http.ResponseWriter, r *http.Request, s *session) {
		s.Stop()
		all.forget(s)
	}))
	mux.HandleFunc("GET /", all.with(func(w http.ResponseWriter, r *http.Request, s *session) { fmt.Fprintln(w, "hello", s.name) }))
	return mux
}

// with calls h with the session of a request.
func (all *sessions) with(h func(http.ResponseWriter, *http.Request, *session)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		cookie, err := r.Cookie("session")
		if err == nil {
			if s, ok := all.use(cookie.Value); ok {
				h(w, r, s)
				return
			}
		}
		http.Error(w, "please log in", http.StatusUnauthorized)
	}
}
