package page

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"
)

// errForged is the error of a form that another site sent.
var errForged = errors.New("the form is of another site")

// guard returns a handler that refuses forms of other sites, and sets the headers that all
// responses have.
func (h *Site) guard(next http.Handler) http.Handler {
	protection := http.NewCrossOriginProtection()
	refuse := h.serve(0, func(*Visit) error { return errForged })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("X-Content-Type-Options", "nosniff")
		// With the policy no-referrer, a form would have the Origin null, and its site would be
		// unknown.
		header.Set("Referrer-Policy", "same-origin")
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		if h.https {
			header.Set("Strict-Transport-Security", "max-age=31536000")
		}
		if protection.Check(r) != nil {
			refuse(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

//go:embed static
var staticFiles embed.FS

// assets are the static files. The name of each file has a hash of its content, so a browser may
// cache the file for ever and still gets the file of a new version.
type assets struct {
	names map[string]string // from app.css to app.1a2b3c4d5e6f.css
	files map[string][]byte // by the name with the hash
}

// newAssets reads the files that the program was built with.
func newAssets() assets {
	a := assets{names: map[string]string{}, files: map[string][]byte{}}
	entries, err := staticFiles.ReadDir("static")
	if err != nil {
		panic(fmt.Errorf("read static files: %w", err))
	}
	for _, entry := range entries {
		content, err := staticFiles.ReadFile("static/" + entry.Name())
		if err != nil {
			panic(fmt.Errorf("read static file: %w", err))
		}
		sum := sha256.Sum256(content)
		extension := path.Ext(entry.Name())
		name := strings.TrimSuffix(entry.Name(), extension) + "." + hex.EncodeToString(sum[:6]) + extension
		a.names[entry.Name()], a.files[name] = name, content
	}
	return a
}

// path returns the path of a file.
func (a assets) path(name string) string { return "/static/" + a.names[name] }

// mediaTypes are the types of the files by their extension.
var mediaTypes = map[string]string{
	".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}

// serve serves a file.
func (a assets) serve(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	content, ok := a.files[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", mediaTypes[path.Ext(name)])
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	w.Header().Set("Content-Security-Policy", "default-src 'none'")
	_, _ = w.Write(compressed(w.Header(), r, content)) // after an error the browser is gone
}
