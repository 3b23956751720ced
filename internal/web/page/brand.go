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

// brandAge is how old the settings may be that a page is made with.
const brandAge = 5 * time.Second

// brands keeps the settings of the portal between pages.
type brands struct {
	from Branding // nil: the portal has no settings

	mu   sync.Mutex // guards the rest; it is never held during a read
	last postrider.Portal
	at   time.Time // when last was read; zero: never
}

// get returns the settings. While the store does not respond, they are the settings that
// were read last: no page should fail for its colour.
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

// brandOf returns the look of the page. Pages of operators have none.
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

// serveBrand serves the stylesheet of a colour, or the logo. Both are named after their
// content, so browsers keep them. They are public, as a brand is.
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
	_, _ = w.Write(content) // an error means that the browser is gone
}

// minContrast is the contrast that WCAG 2.2 AA demands of text, 4.5, and a margin for
// rounding.
const minContrast = 4.6

// towards returns the colour that is nearest to c on the way to another one and has
// enough contrast with the ground. The other colour has.
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
	// lightGround and darkGround are the grounds of app.css on which the accent has the
	// least contrast: --sunken of the light colours, --hover of the dark ones. What is
	// written on the accent has more: --on-accent is white, or darker than darkGround.
	lightGround, _ = postrider.ParseColour("#eef0f4")
	darkGround, _  = postrider.ParseColour("#1d222c")
)

// stylesheet makes the colour the accent of the pages. It is darkened for the light
// colours and lightened for the dark ones until text of the colour can be read.
func stylesheet(accent postrider.Colour) string {
	return fmt.Sprintf(":root { --accent: light-dark(%s, %s); }\n", inCSS(towards(accent, black, lightGround)), inCSS(towards(accent, white, darkGround)))
}

// inCSS returns the colour as #rrggbb.
func inCSS(c postrider.Colour) string {
	part := func(x float64) int { return int(math.Round(x * 255)) }
	return fmt.Sprintf("#%02x%02x%02x", part(c[0]), part(c[1]), part(c[2]))
}
