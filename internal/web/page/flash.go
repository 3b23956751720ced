package page

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/postrider/postrider"
)

// Flash is the message that says what a form did. The response to a form is a redirect, so a
// cookie carries the message to the next page, which shows it once. All tabs share the cookie. So
// other pages do not take it, and a page that reloads itself does not take it either.
type Flash struct {
	// Page is the path of the page that shows the message. Done sets it.
	Page string `json:"p,omitempty"`
	// Text says what was done, in the language of the person.
	Text string `json:"t,omitempty"`
	// Undo is the path of the form that undoes the change; empty: there is none.
	Undo string `json:"u,omitempty"`
	// Warn marks a text about a failure.
	Warn bool `json:"w,omitempty"`
	// Value is the field value of the form that undoes the change.
	Value string `json:"v,omitempty"`
	// Link is the path of a page to open next, and LinkText its name; empty: there is none.
	Link     string `json:"l,omitempty"`
	LinkText string `json:"n,omitempty"`
	// Made has the deliveries that the form created, at most one for each row of a list.
	Made []postrider.DeliveryID `json:"d,omitempty"`
	// Refusal is the key of the text for a form that the API refused; the text has the argument
	// why. Empty: the page shows only the reason. See [Visit.DoneUnless].
	Refusal string `json:"-"`
}

// MaxFlash is the largest cookie of a flash, in bytes. Browsers take 4 KiB.
const MaxFlash = 3 << 10

// Done ends a form. It redirects to the path; that page shows the flash.
func (v *Visit) Done(path string, f Flash) error {
	f.Page, _, _ = strings.Cut(path, "?")
	v.Say(f)
	text, err := json.Marshal(v.flash)
	if cookie := base64.RawURLEncoding.EncodeToString(text); err == nil && len(cookie) <= MaxFlash {
		v.SetCookie("flash", cookie, time.Minute)
	}
	return v.Redirect(path)
}

// Say shows the flash on the page that is itself the response to the form. The flash also says on
// which servers the change is not in effect yet.
func (v *Visit) Say(f Flash) {
	if n := v.notEffective; len(n.Servers) > 0 {
		f.Text += " " + v.T("change.not_effective", "servers", strings.Join(n.Servers, ", "), "until", n.Until.In(v.Zone).Format(time.TimeOnly))
		f.Warn = true
	}
	v.flash = f
}

// DoneUnless is [Visit.Done] if err is nil. If the API refused the form, it redirects to the same
// path, which shows the reason. It returns any other error.
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

// renewal is the header with which app.js marks a request that reloads a page by itself.
const renewal = "Postrider-Renewal"

// takeFlash returns the flash of the form before this page. Only forms of this audience can be
// undone.
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
