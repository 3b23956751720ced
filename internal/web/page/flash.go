package page

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/postrider/postrider"
)

// Flash is what a form did. The response to a form is a redirect, so a cookie carries
// it to the page that the redirect leads to, which shows it once. All tabs share the
// cookie, so other pages, and a page that only renews itself, leave it alone.
type Flash struct {
	// Page is the path of the page that shows it. Done writes it.
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
	// Refusal is the key of the text about a form that the API refused, with the argument why;
	// empty: the reason alone. See [Visit.DoneUnless].
	Refusal string `json:"-"`
}

// MaxFlash is the largest cookie of a flash, in bytes. Browsers take 4 KiB.
const MaxFlash = 3 << 10

// Done ends a form: it leads to the path, which says what was done.
func (v *Visit) Done(path string, f Flash) error {
	f.Page, _, _ = strings.Cut(path, "?")
	if n := v.notEffective; len(n.Servers) > 0 {
		f.Text += " " + v.T("change.not_effective", "servers", strings.Join(n.Servers, ", "), "until", n.Until.In(v.Zone).Format(time.TimeOnly))
		f.Warn = true
	}
	text, err := json.Marshal(f)
	if cookie := base64.RawURLEncoding.EncodeToString(text); err == nil && len(cookie) <= MaxFlash {
		v.SetCookie("flash", cookie, time.Minute)
	}
	return v.Redirect(path)
}

// DoneUnless is [Visit.Done], unless the API refused the form or failed: a refusal leads to the same
// path, which says why.
func (v *Visit) DoneUnless(err error, path string, f Flash) error {
	faults := v.Faulty(err)
	if err != nil && faults == nil {
		return err
	}
	if why := AnyFault(faults); faults != nil && f.Refusal != "" {
		f = Flash{Text: v.T(f.Refusal, "why", why), Warn: true}
	} else if faults != nil {
		f = Flash{Text: why, Warn: true}
	}
	return v.Done(path, f)
}

// renewal is the header of requests by which a page renews itself: app.js sets it.
const renewal = "Postrider-Renewal"

// takeFlash returns what the form before this page did. Only forms of this audience
// can be undone.
func takeFlash(v *Visit) Flash {
	var f Flash
	text, err := base64.RawURLEncoding.DecodeString(v.Cookie("flash"))
	if err != nil || v.Request.Method != http.MethodGet || json.Unmarshal(text, &f) != nil {
		return Flash{}
	}
	if f.Page != v.Request.URL.EscapedPath() || v.Request.Header.Get(renewal) != "" {
		return Flash{}
	}
	if !strings.HasPrefix(f.Undo, v.Base+"/") {
		f.Undo = ""
	}
	if !strings.HasPrefix(f.Link, v.Base+"/") {
		f.Link = ""
	}
	return f
}
