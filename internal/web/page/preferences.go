package page

import (
	"fmt"
	"time"

	"github.com/postrider/postrider"
)

// PreferenceAge is how long a browser remembers a preference.
const PreferenceAge = 365 * 24 * time.Hour

// preferences is the form of language and time zone. It is in the navigation of every page. If
// the API refuses the form, it becomes a page of its own.
type preferences struct {
	Language, Zone string // the current values, or those that the person typed
	Unset          bool   // the person has chosen no zone
	Languages      []string
	Back           string // path of the page to go back to
	Faults         map[string]string
}

// PreferencesOf returns the form with the current values.
func PreferencesOf(v *Visit) preferences {
	return preferences{
		Language: v.Text.Language, Zone: v.Zone.String(), Unset: v.Cookie("zone") == "",
		Languages: v.Site.Texts.Languages, Back: v.Request.URL.RequestURI(),
	}
}

// LoadZone returns the time zone with the IANA name.
func LoadZone(name string) (*time.Location, error) {
	if name == "" || name == "Local" { // Go reads these as UTC and as the zone of the server
		return nil, fmt.Errorf("time zone %q: %w", name, postrider.ErrNotFound)
	}
	return time.LoadLocation(name)
}

// zoneOf returns the time zone with the name; UTC if the name is unknown.
func zoneOf(name string) *time.Location {
	if zone, err := LoadZone(name); err == nil {
		return zone
	}
	return time.UTC
}
