package web

import (
	"net/http"
	"time"
)

// preferenceRoutes lists the page and the form of what a person prefers.
func preferenceRoutes() []route {
	return []route{
		{"GET /preferences", everyone, showPreferences},
		{"POST /preferences", everyone, setPreferences},
	}
}

// preferenceAge is how long a browser remembers a preference.
const preferenceAge = 365 * 24 * time.Hour

// preferences is the form of what a person prefers. It is in the navigation of every page;
// if it is refused, it is a page.
type preferences struct {
	Language, Zone string // as they are, or as the person typed them
	Unset          bool   // the person has chosen no zone
	Languages      []string
	Back           string // path of the page to go back to
	Faults         map[string]string
}

// preferences returns the form with what counts now.
func (v *visit) preferences() preferences {
	return preferences{
		Language: v.text.Language, Zone: v.zone.String(), Unset: v.cookie("zone") == "", Languages: v.h.texts.languages, Back: v.r.URL.RequestURI(),
	}
}

// showPreferences shows only the form, for those who load the page again.
func showPreferences(v *visit) error {
	p := v.preferences()
	p.Back = v.base
	return v.show(page{Name: "preferences", Data: p})
}

// setPreferences keeps the language and the time zone in cookies of their own, so
// that they outlive the session. If the zone is unknown, it keeps neither.
func setPreferences(v *visit) error {
	zone, err := loadZone(v.form("zone"))
	if err != nil {
		p := v.preferences()
		p.Zone, p.Language, p.Back = v.form("zone"), v.form("language"), v.back()
		p.Faults = map[string]string{"zone": v.t("preferences.no_zone", "zone", p.Zone)}
		return v.show(page{Name: "preferences", Status: http.StatusUnprocessableEntity, Data: p})
	}
	if language := v.form("language"); v.h.texts.catalogues[language] != nil {
		v.text = v.h.texts.catalogues[language]
		v.setCookie("language", language, preferenceAge)
	}
	v.setCookie("zone", zone.String(), preferenceAge)
	return v.done(v.back(), flash{Text: v.t("preferences.done", "zone", zone.String())})
}
