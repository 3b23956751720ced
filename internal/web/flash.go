package web

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/postrider/postrider"
)

// flash is what a form did. The response to a form is a redirect, so a cookie carries
// it to the page that the redirect leads to, which shows it once. All tabs share the
// cookie, so other pages, and a page that only renews itself, leave it alone.
type flash struct {
	// Page is the path of the page that shows it. done writes it.
	Page string `json:"p,omitempty"`
	// Text is what was done, in the language of the person.
	Text string `json:"t,omitempty"`
	// Undo is the path of a form that takes it back; empty: that is impossible.
	Undo string `json:"u,omitempty"`
	// Warn marks a text about what went wrong.
	Warn bool `json:"w,omitempty"`
	// Value is the field value of the form that takes it back.
	Value string `json:"v,omitempty"`
	// Link is the path of a page to see next, and LinkText its name; empty: none.
	Link     string `json:"l,omitempty"`
	LinkText string `json:"n,omitempty"`
	// Made are the deliveries that were made, at most one for each row of a list.
	Made []postrider.DeliveryID `json:"d,omitempty"`
}

// maxFlash is the largest cookie of a flash, in bytes. Browsers take 4 KiB.
const maxFlash = 3 << 10

// done ends a form: it leads to the path, which says what was done.
func (v *visit) done(path string, f flash) error {
	f.Page, _, _ = strings.Cut(path, "?")
	if n := v.notEffective; len(n.Servers) > 0 {
		f.Text += " " + v.t("change.not_effective", "servers", strings.Join(n.Servers, ", "), "until", n.Until.In(v.zone).Format(time.TimeOnly))
		f.Warn = true
	}
	text, err := json.Marshal(f)
	if cookie := base64.RawURLEncoding.EncodeToString(text); err == nil && len(cookie) <= maxFlash {
		v.setCookie("flash", cookie, time.Minute)
	}
	return v.redirect(path)
}

// renewal is the header of requests by which a page renews itself: app.js sets it.
const renewal = "Postrider-Renewal"

// takeFlash returns what the form before this page did. Only forms of this audience
// can be undone.
func (v *visit) takeFlash() flash {
	var f flash
	text, err := base64.RawURLEncoding.DecodeString(v.cookie("flash"))
	if err != nil || v.r.Method != http.MethodGet || json.Unmarshal(text, &f) != nil {
		return flash{}
	}
	if f.Page != v.r.URL.EscapedPath() || v.r.Header.Get(renewal) != "" {
		return flash{}
	}
	if !strings.HasPrefix(f.Undo, v.base+"/") {
		f.Undo = ""
	}
	if !strings.HasPrefix(f.Link, v.base+"/") {
		f.Link = ""
	}
	return f
}
