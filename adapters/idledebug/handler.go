package idledebug

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"mime"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/time/rate"

	"github.com/idlewheel/idlewheel/idle"
	"github.com/idlewheel/idlewheel/idle/pressure"
)

// Options configures a [Handler]. A nil *Options means all defaults.
type Options struct {
	// Authorize reports whether a request is answered, whatever its method. Others get 403. The
	// default answers to loopback only, as described in the package's documentation. A function
	// of yours replaces all of that, so it has to check who asks.
	Authorize func(*http.Request) bool

	// Steer lets everyone whom Authorize allows drain trackers, shed and end connections, and
	// change limits.
	Steer bool

	// Logger gets a record of each attempt to drain, shed, end or change something: who asked,
	// for what, and the error if it failed. Attempts that are refused before their body is read,
	// such as by Authorize, are logged at most once per second after the first 20. Their
	// records count those left out, as unlogged. Nil means slog.Default().
	Logger *slog.Logger

	// Pressure, if not nil, returns the Follower of a tracker's limits, by the tracker's name, or
	// nil if there is none. Then the page shows the pressure, and shows and changes the limits at
	// rest.
	Pressure func(tracker string) *pressure.Follower
}

// Handler serves the page and its JSON. It is made by [New].
type Handler struct {
	authorize func(*http.Request) bool
	steer     bool
	logger    *slog.Logger
	names     []string // of trackers, sorted
	looks     map[string]*look
	routes    map[string]route
	off       map[string]route // those that only Steer would allow
	crossSite *http.CrossOriginProtection
	refused   *rate.Limiter // how often a refusal is logged
	unlogged  atomic.Uint64 // refusals since the last one that was logged
}

// A route answers requests for one path.
type route struct {
	method string
	serve  func(http.ResponseWriter, *http.Request) error
}

//go:embed page
var files embed.FS

// New returns a Handler for trackers by name. The page shows the names. opts may be nil.
// New fails if there is no tracker, if one is nil, and if a name is empty. A tracker may
// be closed while the Handler is in use; then the page shows its last counts.
func New(trackers map[string]*idle.Tracker, opts *Options) (*Handler, error) {
	if len(trackers) == 0 {
		return nil, errors.New("idledebug: trackers is empty; pass at least one tracker")
	}
	h := &Handler{
		authorize: isLocal, logger: slog.Default(), looks: map[string]*look{},
		crossSite: http.NewCrossOriginProtection(), refused: rate.NewLimiter(1, 20),
	}
	if opts != nil {
		h.steer, h.logger = opts.Steer, cmp.Or(opts.Logger, h.logger)
		if opts.Authorize != nil {
			h.authorize = opts.Authorize
		}
	}
	h.names = slices.Sorted(maps.Keys(trackers))
	for _, name := range h.names {
		switch t := trackers[name]; {
		case name == "":
			return nil, errors.New(`idledebug: trackers[""] has no name; the page shows the name, so choose one`)
		case t == nil:
			return nil, fmt.Errorf("idledebug: trackers[%q] is nil; make the tracker with idle.New, and check its error; that of a gnet handler is nil before OnBoot, so call New there", name)
		default:
			h.looks[name] = newLook(t, h.steer)
			if opts != nil && opts.Pressure != nil {
				h.looks[name].follows = func() *pressure.Follower { return opts.Pressure(name) }
			}
		}
	}
	h.routes = map[string]route{
		"api/state":       {http.MethodGet, h.state},
		"api/connections": {http.MethodGet, h.connections},
	}
	steering := map[string]route{
		"api/drain":     {http.MethodPost, h.drain},
		"api/shed":      {http.MethodPost, h.shed},
		"api/operation": {http.MethodPost, h.operation},
		"api/end":       {http.MethodPost, h.end},
		"api/limits":    {http.MethodPost, h.limits},
	}
	if h.steer {
		maps.Copy(h.routes, steering)
	} else {
		h.off = steering
	}
	if err := h.addFiles(); err != nil {
		return nil, err
	}
	return h, nil
}

// addFiles adds a route for each file of the page.
func (h *Handler) addFiles() error {
	entries, err := files.ReadDir("page")
	if err != nil {
		return err
	}
	for _, e := range entries {
		content, err := files.ReadFile("page/" + e.Name())
		if err != nil {
			return err
		}
		kind := kinds[path.Ext(e.Name())]
		serve := func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Content-Type", kind)
			w.Write(content)
			return nil
		}
		h.routes[e.Name()] = route{http.MethodGet, serve}
	}
	h.routes[""] = h.routes["index.html"]
	return nil
}

// kinds are the types of the page's files. Those that package mime knows depend on the
// machine.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// ServeHTTP answers a request for the page, for a file of it, or for its JSON.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Security-Policy", "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cache-Control", "no-store")
	serve, err := h.admit(w, r)
	switch {
	case !h.changes(r):
		if err == nil {
			err = serve(w, r)
		}
	case err == nil:
		err = h.logged(serve, w, r)
	case h.refused.Allow():
		h.log(r, err, slog.Uint64("unlogged", h.unlogged.Swap(0)))
	default:
		h.unlogged.Add(1)
	}
	if err != nil {
		answerError(w, err)
	}
}

// changes reports whether a request asks for a change, also if it can't have it.
func (h *Handler) changes(r *http.Request) bool {
	name := strings.TrimPrefix(r.URL.Path, "/")
	_, off := h.off[name]
	return off || h.routes[name].method == http.MethodPost || r.Method != http.MethodGet && r.Method != http.MethodHead
}

// admit returns what serves a request, or an error if it is refused.
func (h *Handler) admit(w http.ResponseWriter, r *http.Request) (serve func(http.ResponseWriter, *http.Request) error, err error) {
	if !h.authorize(r) {
		return nil, &refusal{http.StatusForbidden, "you may not look at this page; see idledebug.Options.Authorize"}
	}
	if h.crossSite.Check(r) != nil {
		return nil, &refusal{http.StatusForbidden, "a request from another site; only this page may send " + r.Method}
	}
	asked, query, _ := strings.Cut(r.RequestURI, "?")
	if r.URL.Path == "" && !strings.HasSuffix(asked, "/") { // the page's URLs would not be relative to the prefix
		to := "./" + path.Base(asked) + "/"
		if query != "" {
			to += "?" + query
		}
		return func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Location", to)
			w.WriteHeader(http.StatusPermanentRedirect)
			return nil
		}, nil
	}
	name := strings.TrimPrefix(r.URL.Path, "/")
	if strings.HasPrefix(name, "api/") && r.Header.Get("Sec-Fetch-Site") == "cross-site" {
		return nil, &refusal{http.StatusForbidden, "a request from another site; only this page may ask for " + name}
	}
	if _, off := h.off[name]; off {
		return nil, &refusal{http.StatusNotFound, "steering is off; Options.Steer of idledebug allows it"}
	}
	to, ok := h.routes[name]
	if !ok {
		return nil, &refusal{http.StatusNotFound, "there is nothing at this path"}
	}
	if r.Method != to.method && !(r.Method == http.MethodHead && to.method == http.MethodGet) {
		w.Header().Set("Allow", to.method)
		return nil, &refusal{http.StatusMethodNotAllowed, "the method is " + r.Method + "; it must be " + to.method}
	}
	if to.method == http.MethodPost {
		if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/json" {
			return nil, &refusal{http.StatusUnsupportedMediaType, fmt.Sprintf("Content-Type is %q; it must be application/json", r.Header.Get("Content-Type"))}
		}
	}
	return to.serve, nil
}

// logged serves a request, and logs who asked for what.
func (h *Handler) logged(serve func(http.ResponseWriter, *http.Request) error, w http.ResponseWriter, r *http.Request) error {
	var body bytes.Buffer // serve reads at most maxBody
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.TeeReader(r.Body, &body), r.Body}
	err := serve(w, r)
	h.log(r, err, slog.String("body", cut(body.String())))
	return err
}

// log logs an attempt to change something. Its texts may come from anyone who reaches the page.
func (h *Handler) log(r *http.Request, err error, more slog.Attr) {
	attrs := []slog.Attr{
		slog.String("remote", r.RemoteAddr), slog.String("method", cut(r.Method)), slog.String("action", cut(path.Base(r.URL.Path))),
		slog.String("tracker", cut(r.URL.Query().Get("tracker"))), more,
	}
	if err != nil {
		attrs = append(attrs, slog.String("error", cut(err.Error())))
	}
	h.logger.LogAttrs(r.Context(), slog.LevelInfo, "idledebug: asked to steer", attrs...)
}

// cut returns at most the first 1,000 bytes of a text.
func cut(text string) string { return text[:min(len(text), 1000)] }

// look returns the look at the tracker that a request names.
func (h *Handler) look(r *http.Request) (name string, l *look, err error) {
	name = cmp.Or(r.URL.Query().Get("tracker"), h.names[0])
	l, ok := h.looks[name]
	if !ok {
		return "", nil, invalid("tracker", name, "one of "+quoteAll(h.names))
	}
	return name, l, nil
}
