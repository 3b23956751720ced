package rest

import (
	"net/http"
	"slices"
	"strings"
)

// methods knows the allowed methods of each path, and responds to all other methods with 405.
// [http.ServeMux] alone is wrong for overlapping paths: the Allow header for DELETE /events/batch
// would also have the methods of /events/{event}, and GET /events/batch would be served as the
// event with the id "batch".
type methods struct {
	// mux has the routes.
	mux *http.ServeMux
	// paths has the same paths as mux, without methods. It finds the path of a request.
	paths *http.ServeMux
	// allowed has the methods of each path. close sorts them, and adds HEAD to paths that have GET.
	allowed map[string][]string
}

// newMethods returns methods for the routes of mux. The caller must call add for each route.
func newMethods(mux *http.ServeMux) *methods {
	return &methods{mux: mux, paths: http.NewServeMux(), allowed: map[string][]string{}}
}

// add records a route of the mux, as "METHOD path".
func (m *methods) add(pattern string) {
	method, path, _ := strings.Cut(pattern, " ")
	if m.allowed[path] == nil {
		m.paths.Handle(path, http.NotFoundHandler()) // never called: only its pattern is used
	}
	m.allowed[path] = append(m.allowed[path], method)
}

// close registers a 405 for each method that a path lacks and that the wildcard of another path
// would serve instead. Call close once, after the last add.
func (m *methods) close() {
	refused := map[string]bool{}
	for path, own := range m.allowed {
		for other, theirs := range m.allowed {
			if other == path || !covers(other, path) {
				continue
			}
			for _, method := range theirs {
				pattern := method + " " + path
				if !slices.Contains(own, method) && !refused[pattern] {
					refused[pattern] = true
					m.mux.HandleFunc(pattern, m.refuse)
				}
			}
		}
	}
	for path, own := range m.allowed {
		if slices.Contains(own, http.MethodGet) {
			own = append(own, http.MethodHead)
		}
		m.allowed[path] = slices.Compact(slices.Sorted(slices.Values(own)))
	}
}

// covers reports whether every request for the path also matches the pattern.
func covers(pattern, path string) bool {
	wide, narrow := strings.Split(pattern, "/"), strings.Split(path, "/")
	return slices.EqualFunc(wide, narrow, func(w, n string) bool { return w == n || strings.HasPrefix(w, "{") })
}

// ServeHTTP serves the request. If the mux responds with 405, ServeHTTP replaces the Allow header
// by the methods of the request's own path.
func (m *methods) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mux.ServeHTTP(w, r)
	if a, ok := w.(*responseWriter); ok && a.unrouted && a.status == http.StatusMethodNotAllowed {
		m.allow(w, r)
	}
}

// refuse responds with 405 on a route that close registered.
func (m *methods) refuse(w http.ResponseWriter, r *http.Request) {
	m.allow(w, r)
	w.(*responseWriter).refuse(errNoMethod) //nolint:errcheck // requestLogger passes a responseWriter
}

// allow sets the Allow header to the methods of the request's path.
func (m *methods) allow(w http.ResponseWriter, r *http.Request) {
	_, path := m.paths.Handler(r)
	w.Header().Set("Allow", strings.Join(m.allowed[path], ", "))
}
