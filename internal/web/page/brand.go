package page

import (
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/postrider/postrider"
)

// Branding has the operator's settings for the portal: its look, and the sites that may
// embed it.
type Branding interface {
	// Portal returns the settings.
	Portal(ctx context.Context) (postrider.Portal, error)
	// Logo returns the logo, a PNG, or an error that matches postrider.ErrNotFound.
	Logo(ctx context.Context) ([]byte, error)
}

// brandAge is the age from which get reads the settings again.
const brandAge = 5 * time.Second

// brands caches the settings of the portal.
type brands struct {
	from Branding // source of the settings; nil: the portal has no settings

	mu   sync.Mutex // guards the fields below; not held while from is read
	last postrider.Portal
	at   time.Time // time of the last read, set by get; zero: never
}

// get returns the settings. While the store does not respond, get returns the settings that were
// read last, because a page should not fail for its colour.
func (b *brands) get(ctx context.Context, now time.Time) postrider.Portal {
	b.mu.Lock()
	last, fresh := b.last, !b.at.IsZero() && now.Sub(b.at) < brandAge
	b.mu.Unlock()
	if fresh || b.from == nil {
		return last
	}
	p, err := b.from.Portal(ctx)
	if err != nil {
		return last
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last, b.at = p, now
	return p
}

// brand is what the layout of a portal page shows.
type brand struct {
	Name       string // empty: none
	Stylesheet string // path; empty: none
	Logo       string // path; empty: none
}

// brandOf returns the look of a portal page. A page of operators gets the zero brand.
func brandOf(v *Visit) brand {
	if !v.Portal {
		return brand{}
	}
	p := v.Site.brands.get(v.Context, v.Now)
	b := brand{Name: p.Name}
	if _, ok := postrider.ParseColour(p.Colour); ok {
		b.Stylesheet = "/portal/brand/" + strings.TrimPrefix(p.Colour, "#") + ".css"
	}
	if p.Logo != ([32]byte{}) {
		b.Logo = "/portal/brand/" + hex.EncodeToString(p.Logo[:]) + ".png"
	}
	return b
}

// serveBrand serves the logo, or the stylesheet of a colour. The name of each file has a hash of
// its content, so browsers cache the file. Both are public, because a brand is public.
func (h *Site) serveBrand(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeoutCause(r.Context(), h.Options.PageTime, errSlow)
	defer cancel()
	name := r.PathValue("file")
	content, mediaType := []byte(nil), ""
	if digits, ok := strings.CutSuffix(name, ".css"); ok {
		if c, ok := postrider.ParseColour("#" + digits); ok {
			content, mediaType = []byte(stylesheet(c)), "text/css; charset=utf-8"
		}
	} else if hash, ok := strings.CutSuffix(name, ".png"); ok && h.Brand != nil {
		p := h.brands.get(ctx, time.Now())
		if p.Logo != ([32]byte{}) && hash == hex.EncodeToString(p.Logo[:]) {
			logo, err := h.Brand.Logo(ctx)
			if err == nil {
				content, mediaType = logo, "image/png"
			}
		}
	}
	if content == nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; sandbox")
	_, _ = w.Write(content) // after an error the browser is gone
}

// minContrast is the least contrast of text: 4.5, which WCAG 2.2 AA demands, and a margin for
// rounding.
const minContrast = 4.6

// towards returns the colour between c and other that is nearest to c and has minContrast with
// the ground. The colour other must have minContrast with the ground.
func towards(c, other, ground postrider.Colour) postrider.Colour {
	const steps = 100
	for i := range steps {
		share := float64(i) / steps
		var mixed postrider.Colour
		for part := range mixed {
			mixed[part] = c[part]*(1-share) + other[part]*share
		}
		if mixed.Contrast(ground) >= minContrast {
			return mixed
		}
	}
	return other
}

var (
	black, white = postrider.Colour{0, 0, 0}, postrider.Colour{1, 1, 1}
	// lightGround and darkGround are the backgrounds of app.css on which the accent has the least
	// contrast: --sunken of the light theme, --hover of the dark theme. Text on the accent has
	// more contrast, because --on-accent is white, or darker than darkGround.
	lightGround, _ = postrider.ParseColour("#eef0f4")
	darkGround, _  = postrider.ParseColour("#1d222c")
)

// stylesheet returns CSS that makes the colour the accent of the pages. The colour is darkened
// for the light theme and lightened for the dark theme, until text in the colour can be read.
func stylesheet(accent postrider.Colour) string {
	return fmt.Sprintf(":root { --accent: light-dark(%s, %s); }\n", inCSS(towards(accent, black, lightGround)),
		inCSS(towards(accent, white, darkGround)))
}

// inCSS returns the colour as #rrggbb.
func inCSS(c postrider.Colour) string {
	part := func(x float64) int { return int(math.Round(x * 255)) }
	return fmt.Sprintf("#%02x%02x%02x", part(c[0]), part(c[1]), part(c[2]))
}
