package idledebug

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/idlewheel/idlewheel/idle"
)

// Options configures a [Handler]. A nil *Options means all defaults.
type Options struct {
	// Authorize reports whether a request is answered. Others get 403. The default answers to
	// loopback only, as described in the package's documentation. A function of yours replaces
	// all of that, so it has to check who asks.
	Authorize func(*http.Request) bool
}

// Handler serves the page and its JSON. It is made by [New].
type Handler struct {
	authorize func(*http.Request) bool
	names     []string // of trackers, sorted
	looks     map[string]*look
	routes    map[string]route
}

// A route answers requests for one path.
type route func(http.ResponseWriter, *http.Request) error

//go:embed page
var files embed.FS

// New returns a Handler for trackers by name. The page shows the names. opts may be nil.
// New fails if there is no tracker, if one is nil, and if a name is empty. A tracker may
// be closed while the Handler is in use; then the page shows its last counts.
func New(trackers map[string]*idle.Tracker, opts *Options) (*Handler, error) {
	if len(trackers) == 0 {
		return nil, errors.New("idledebug: trackers is empty; pass at least one tracker")
	}
	h := &Handler{authorize: isLocal, looks: map[string]*look{}}
	if opts != nil && opts.Authorize != nil {
		h.authorize = opts.Authorize
	}
	h.names = slices.Sorted(maps.Keys(trackers))
	for _, name := range h.names {
		switch t := trackers[name]; {
		case name == "":
			return nil, errors.New(`idledebug: trackers[""] has no name; the page shows the name, so choose one`)
		case t == nil:
			return nil, fmt.Errorf("idledebug: trackers[%q] is nil; make the tracker with idle.New, and check its error; that of a gnet handler is nil before OnBoot, so call New there", name)
		default:
			h.looks[name] = newLook(t)
		}
	}
	h.routes = map[string]route{"api/state": h.state, "api/connections": h.connections}
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
		h.routes[e.Name()] = func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Content-Type", kind)
			w.Write(content)
			return nil
		}
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
	if err == nil {
		err = serve(w, r)
	}
	if err != nil {
		answerError(w, err)
	}
}

// admit returns what serves a request, or an error if it is refused.
func (h *Handler) admit(w http.ResponseWriter, r *http.Request) (route, error) {
	if !h.authorize(r) {
		return nil, &refusal{http.StatusForbidden, "you may not look at this page; see idledebug.Options.Authorize"}
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		return nil, &refusal{http.StatusMethodNotAllowed, "the method is " + r.Method + "; it must be GET"}
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
	serve, ok := h.routes[strings.TrimPrefix(r.URL.Path, "/")]
	if !ok {
		return nil, &refusal{http.StatusNotFound, "there is nothing at this path"}
	}
	return serve, nil
}

// look returns the look at the tracker that a request names.
func (h *Handler) look(r *http.Request) (name string, l *look, err error) {
	name = cmp.Or(r.URL.Query().Get("tracker"), h.names[0])
	l, ok := h.looks[name]
	if !ok {
		return "", nil, invalid("tracker", name, "one of "+quoteAll(h.names))
	}
	return name, l, nil
}
