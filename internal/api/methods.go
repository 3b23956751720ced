package api

import (
	"net/http"
	"slices"
	"strings"
)

// methods knows which methods each path has. [http.ServeMux] alone does not: for
// DELETE /events/batch it would also list the methods of /events/{event}, and
// it would answer GET /events/batch as an event whose id is "batch".
type methods struct {
	mux     *http.ServeMux
	paths   *http.ServeMux      // the same paths, with any method
	allowed map[string][]string // by path
}

func newMethods(mux *http.ServeMux) *methods {
	return &methods{mux: mux, paths: http.NewServeMux(), allowed: map[string][]string{}}
}

// add notes a route of the mux: METHOD path.
func (m *methods) add(pattern string) {
	method, path, _ := strings.Cut(pattern, " ")
	if m.allowed[path] == nil {
		m.paths.Handle(path, http.NotFoundHandler()) // never called: only the pattern is asked for
	}
	m.allowed[path] = append(m.allowed[path], method)
}

// close refuses, on each path, the methods that it does not have and that a
// wildcard of another path would answer instead. It is called after the last add.
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

// covers reports whether every request to the path also matches the pattern.
func covers(pattern, path string) bool {
	wide, narrow := strings.Split(pattern, "/"), strings.Split(path, "/")
	return slices.EqualFunc(wide, narrow, func(w, n string) bool { return w == n || strings.HasPrefix(w, "{") })
}

// ServeHTTP answers a request, with the right Allow where its path has no such
// method.
func (m *methods) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mux.ServeHTTP(w, r)
	if a, ok := w.(*responseWriter); ok && a.unrouted && a.status == http.StatusMethodNotAllowed {
		m.allow(w, r)
	}
}

func (m *methods) refuse(w http.ResponseWriter, r *http.Request) {
	m.allow(w, r)
	w.(*responseWriter).refuse(errNoMethod) //nolint:errcheck // requestLogger passes one
}

func (m *methods) allow(w http.ResponseWriter, r *http.Request) {
	_, path := m.paths.Handler(r)
	w.Header().Set("Allow", strings.Join(m.allowed[path], ", "))
}
