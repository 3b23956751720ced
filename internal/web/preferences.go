package web

import (
	"time"
)

// preferenceRoutes lists the forms of what a person prefers.
func preferenceRoutes() []route {
	return []route{{"POST /preferences", everyone, setPreferences}}
}

// preferenceAge is how long a browser remembers a preference.
const preferenceAge = 365 * 24 * time.Hour

// setPreferences keeps the language and the time zone in cookies of their own, so
// that they outlive the session.
func setPreferences(v *visit) error {
	if language := v.form("language"); v.h.texts.catalogues[language] != nil {
		v.text = v.h.texts.catalogues[language]
		v.setCookie("language", language, preferenceAge)
	}
	zone := zoneOf(v.form("zone"))
	v.setCookie("zone", zone.String(), preferenceAge)
	return v.done(v.back(), flash{Text: v.t("preferences.done", "zone", zone.String())})
}
