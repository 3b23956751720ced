package api_test

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/color"
	"image/png"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/postrider/postrider"
)

func TestThePortalsSettings(t *testing.T) {
	t.Parallel()
	w := newPeople(t)
	standard := w.want(200, "GET /portal", "")
	has(t, "standard", standard.body, map[string]any{"name": "", "colour": nil, "logo": nil, "updated_at": nil, "frame_origins": []any{}})
	if options, _ := standard.body["options"].([]any); len(options) != len(postrider.PortalOptions) {
		t.Errorf("the standard options are %v, want %v", options, postrider.PortalOptions)
	}
	set := w.want(200, "PUT /portal",
		`{"name": "Acme", "colour": "#0A5F8E", "frame_origins": ["https://app.example", "https://app.example:8443"], "options": ["rate"]}`)
	has(t, "set", set.body, map[string]any{
		"name": "Acme", "colour": "#0a5f8e", "frame_origins": []any{"https://app.example", "https://app.example:8443"}, "options": []any{"rate"},
	})
	has(t, "read", w.want(200, "GET /portal", "").body, set.body)
	has(t, "none", w.want(200, "PUT /portal", `{"options": []}`).body, map[string]any{"name": "", "options": []any{}})
	for body, field := range map[string]string{
		`{"name": "` + strings.Repeat("x", 65) + `"}`:        "name",
		`{"colour": "red"}`:                                  "colour",
		`{"colour": "#12345"}`:                               "colour",
		`{"colour": "0a5f8e00"}`:                             "colour",
		`{"colour": "#ffcc00"}`:                              "colour", // 1.5
		`{"colour": "#787878"}`:                              "colour", // 4.4
		`{"frame_origins": ["http://app.example"]}`:          "frame_origins[0]",
		`{"frame_origins": ["https://app.example/"]}`:        "frame_origins[0]",
		`{"frame_origins": ["https://*.example"]}`:           "frame_origins[0]",
		`{"frame_origins": ["https://App.example"]}`:         "frame_origins[0]",
		`{"frame_origins": ["https://a.example; x"]}`:        "frame_origins[0]",
		`{"frame_origins": ["https://u:p@a.example"]}`:       "frame_origins[0]",
		`{"frame_origins": ["https://a.example:443"]}`:       "frame_origins[0]",
		`{"frame_origins": ["https://a.example:99999"]}`:     "frame_origins[0]",
		`{"frame_origins": ["https://a.example:"]}`:          "frame_origins[0]",
		`{"frame_origins": ["https://"]}`:                    "frame_origins[0]",
		`{"options": ["rate", "fly"]}`:                       "options[1]",
		`{"options": ["rate", "rate"]}`:                      "options[1]",
		`{"colour": "#767676", "options": ["fly"]}`:          "options[0]", // 4.5: the lightest grey
		`{"frame_origins": [` + seventeen() + `]}`:           "frame_origins",
		`{"logo": "https://remote.example/logo.png"}`:        "logo",
		`{"frame_origins": ["https://bücher.example:8443"]}`: "frame_origins[0]",
	} {
		if got := w.want(422, "PUT /portal", body); !slices.Equal(got.fields(), []string{field}) {
			t.Errorf("%s names %v, want %s", body, got.fields(), field)
		}
	}
	if got := w.do(w.bound(w.tenant("acme")), "PUT /portal", `{}`); got.status != 403 {
		t.Errorf("a customer's change = %d", got.status)
	}
	if got := w.do(w.bound(w.tenant("other")), "GET /portal", ""); got.status != 200 {
		t.Errorf("a customer's look = %d", got.status)
	}
}

func seventeen() string {
	return strings.TrimSuffix(strings.Repeat(`"https://app.example",`, 17), ",")
}

func TestTheOptionsOfAPortalSession(t *testing.T) {
	t.Parallel()
	w := newPeople(t)
	acme := w.tenant("acme")
	w.want(200, "PUT /portal", `{"options": ["rate"]}`)
	do := w.as(w.portalSession(acme).Caller())
	if got := do("PATCH /endpoints/"+acme.endpoint, `{"rate": {"attempts": 5, "per_ms": 1000}}`); got.status != 200 {
		t.Errorf("an option that is named = %d %s", got.status, got.text)
	}
	if got := do("PATCH /endpoints/"+acme.endpoint, `{"headers": []}`); got.status != 403 || !slices.Equal(got.fields(), []string{"headers"}) {
		t.Errorf("an option that is not = %d %s", got.status, got.text)
	}
	w.want(200, "PUT /portal", `{"options": []}`)
	if got := w.as(w.portalSession(acme).Caller())("PATCH /endpoints/"+acme.endpoint, `{"rate": null}`); got.status != 403 {
		t.Errorf("an option where none is named = %d %s", got.status, got.text)
	}
}

// picture returns a PNG. Noise cannot be compressed.
func picture(t *testing.T, width, height int, noise bool) []byte {
	t.Helper()
	pixels := image.NewNRGBA(image.Rect(0, 0, width, height))
	for i := range pixels.Pix {
		if noise {
			pixels.Pix[i] = byte(rand.Uint32())
		}
	}
	pixels.Set(0, 0, color.NRGBA{1, 2, 3, 255})
	var file bytes.Buffer
	if err := png.Encode(&file, pixels); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

func TestTheLogo(t *testing.T) {
	t.Parallel()
	w := newPeople(t)
	put := func(file []byte) string { return `{"png": "` + base64.StdEncoding.EncodeToString(file) + `"}` }
	w.want(404, "GET /portal/logo", "")
	w.want(204, "DELETE /portal/logo", "")
	hidden := append(picture(t, 512, 512, false), "<script>alert(1)</script>"...)
	set := w.want(200, "PUT /portal/logo", put(hidden))
	kept, err := base64.StdEncoding.DecodeString(set.id("png"))
	if err != nil || bytes.Contains(kept, []byte("script")) {
		t.Errorf("the logo is kept with what followed its pixels: %v", err)
	}
	if pixels, err := png.Decode(bytes.NewReader(kept)); err != nil || pixels.At(0, 0) != (color.NRGBA{1, 2, 3, 255}) {
		t.Errorf("the logo has other pixels: %v", err)
	}
	has(t, "settings", w.want(200, "GET /portal", "").body, map[string]any{"logo": set.id("sha256")})
	has(t, "read", w.want(200, "GET /portal/logo", "").body, set.body)
	for name, body := range map[string]string{
		"no PNG": put([]byte("<svg/>")), "too wide": put(picture(t, 513, 1, false)), "too high": put(picture(t, 1, 513, false)),
		"too large": put(picture(t, 200, 200, true)), "cut": put(picture(t, 9, 9, true)[:60]), "nothing": `{"png": ""}`,
		"no base64": `{"png": "!"}`,
	} {
		if got := w.do(w.admin, "PUT /portal/logo", body); got.status != 422 || !slices.Equal(got.fields(), []string{"png"}) {
			t.Errorf("%s = %d %s, want 422 for png", name, got.status, got.text)
		}
	}
	w.want(204, "DELETE /portal/logo", "")
	w.want(404, "GET /portal/logo", "")
	has(t, "settings without it", w.want(200, "GET /portal", "").body, map[string]any{"logo": nil})
}
