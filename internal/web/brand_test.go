package web_test

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"math"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/web"
)

// luminance is the relative luminance of a colour by WCAG 2.2.
func luminance(t *testing.T, hex string) float64 {
	t.Helper()
	var parts [3]uint8
	if _, err := fmt.Sscanf(hex, "#%02x%02x%02x", &parts[0], &parts[1], &parts[2]); err != nil {
		t.Fatalf("colour %q: %v", hex, err)
	}
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		x := float64(parts[i]) / 255
		if x > 0.04045 {
			x = math.Pow((x+0.055)/1.055, 2.4)
		} else {
			x /= 12.92
		}
		sum += weight * x
	}
	return sum
}

func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	x, y := luminance(t, a), luminance(t, b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

var accents = regexp.MustCompile(`^:root \{ --accent: light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\); \}\n$`)

// Whatever colour the operator chooses, links and buttons of the portal can be read.
func TestTheColourOfAPortalHasContrast(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	for r := 0; r < 256; r += 51 {
		for g := 0; g < 256; g += 51 {
			for b := 0; b < 256; b += 51 {
				given := fmt.Sprintf("%02x%02x%02x", r, g, b)
				found := accents.FindStringSubmatch(w.see("nobody", "/portal/brand/"+given+".css").html)
				if found == nil {
					t.Fatalf("there is no stylesheet of %s", given)
				}
				for accent, grounds := range map[string][]string{
					found[1]: {"#ffffff", "#f6f7f9", "#eef0f4", "#f1f3f7"}, found[2]: {"#0f1218", "#171b23", "#11151c", "#1d222c", "#10131c"},
				} {
					for _, ground := range grounds {
						if got := contrast(t, accent, ground); got < 4.5 {
							t.Errorf("%s: %s on %s has the contrast %.2f", given, accent, ground, got)
						}
					}
				}
			}
		}
	}
	if got := w.see("nobody", "/portal/brand/3350c8.css").html; !strings.Contains(got, "#3350c8") {
		t.Errorf("a colour with enough contrast becomes %s", got)
	}
	for _, wrong := range []string{"red.css", "12345.css", "12345g.css", "3350C8%7Dbody.css", "x", ".css", "1234567.css"} {
		if got := w.as("nobody", "GET /portal/brand/"+wrong, nil); got.status != http.StatusNotFound {
			t.Errorf("GET %s = %d", wrong, got.status)
		}
	}
}

func TestThePortalHasTheBrandOfItsOperator(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	var logo bytes.Buffer
	if err := png.Encode(&logo, image.NewGray(image.Rect(0, 0, 4, 4))); err != nil {
		t.Fatal(err)
	}
	brand := postrider.Portal{Name: `Shop & <b>Co`, Colour: "#ff8800", FrameOrigins: []string{"https://app.example"}}
	if err := w.store.PutPortal(t.Context(), brand); err != nil {
		t.Fatal(err)
	}
	if err := w.store.PutLogo(t.Context(), logo.Bytes()); err != nil {
		t.Fatal(err)
	}
	image := ""
	for person, paths := range map[string][]string{
		"nobody":   {"/portal/enter/code-of-customer"},
		"customer": {"/portal", "/portal/endpoints"},
	} {
		for _, path := range paths {
			got := w.see(person, path)
			for _, text := range []string{`Shop &amp; &lt;b&gt;Co`, `<link rel="stylesheet" href="/portal/brand/ff8800.css">`} {
				if !strings.Contains(got.html, text) {
					t.Errorf("%s lacks %s\n%s", path, text, got.html)
				}
			}
			image = regexp.MustCompile(`/portal/brand/[0-9a-f]{64}\.png`).FindString(got.html)
		}
	}
	got := w.see("nobody", image)
	if got.html != logo.String() || got.header.Get("Content-Type") != "image/png" || got.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("the logo is %q as %v", got.html, got.header)
	}
	if got := w.as("nobody", "GET /portal/brand/"+strings.Repeat("0", 64)+".png", nil); got.status != http.StatusNotFound {
		t.Errorf("another image = %d", got.status)
	}
	if got := w.see("operator", "/dashboard/endpoints"); strings.Contains(got.html, "Shop") || strings.Contains(got.html, "/portal/brand/") {
		t.Errorf("the dashboard has the brand of the portal")
	}
	for path, who := range map[string]string{"/portal": "nobody", "/portal/enter/used": "nobody", "/dashboard/endpoints": "operator"} {
		csp := w.as(who, "GET "+path, nil).header.Get("Content-Security-Policy")
		if framed := strings.HasSuffix(csp, "frame-ancestors https://app.example"); framed != strings.HasPrefix(path, "/portal") {
			t.Errorf("%s without a session has the policy %q", path, csp)
		}
	}
}
