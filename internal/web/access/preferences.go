package access

import (
	"github.com/postrider/postrider/internal/web/page"
)

// showPreferences shows the form on a page of its own, for people who reload a refused form.
func showPreferences(v *page.Visit) error {
	p := page.PreferencesOf(v)
	p.Back = v.Base
	return v.Show(page.View{Name: "preferences", Data: p})
}

// setPreferences stores the language and the time zone in cookies of their own, so that they
// outlive the session. If the zone is unknown, it stores neither.
func setPreferences(v *page.Visit) error {
	zone, err := page.LoadZone(v.Form("zone"))
	if err != nil {
		p := page.PreferencesOf(v)
		p.Zone, p.Language, p.Back = v.Form("zone"), v.Form("language"), v.Back()
		p.Faults = map[string]string{"zone": v.T("preferences.no_zone", "zone", p.Zone)}
		return v.Show(page.View{Name: "preferences", Refused: true, Data: p})
	}
	if language := v.Form("language"); v.Site.Texts.Catalogues[language] != nil {
		v.Text = v.Site.Texts.Catalogues[language]
		v.SetCookie("language", language, page.PreferenceAge)
	}
	v.SetCookie("zone", zone.String(), page.PreferenceAge)
	return v.Done(v.Back(), page.Flash{Text: v.T("preferences.done", "zone", zone.String())})
}
