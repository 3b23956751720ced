package apitypes

import (
	"fmt"
	"strings"
	"time"
)

// NotEffective is the header Not-Yet-Effective of a 202 response. It says which servers may not
// have applied the change yet, and until when at the latest.
type NotEffective struct {
	Servers []string // names of the servers' machines
	Until   time.Time
}

// Header returns the value of the header.
func (n NotEffective) Header() string {
	clean := strings.Map(func(r rune) rune {
		if r <= ' ' && r != ' ' || r > '~' || r == '"' {
			return -1
		}
		return r
	}, strings.Join(n.Servers, " "))
	return fmt.Sprintf(`until="%s", servers="%s"`, n.Until.UTC().Format("2006-01-02T15:04:05.000Z"), clean)
}

// ParseNotEffective reads the value of the header. It returns false if the value is not valid.
func ParseNotEffective(header string) (n NotEffective, ok bool) {
	until, servers, ok := strings.Cut(header, ", ")
	until, one := strings.CutPrefix(strings.TrimSuffix(until, `"`), `until="`)
	servers, two := strings.CutPrefix(strings.TrimSuffix(servers, `"`), `servers="`)
	var err error
	if n.Until, err = time.Parse(time.RFC3339Nano, until); err != nil || !ok || !one || !two {
		return NotEffective{}, false
	}
	n.Servers = strings.Fields(servers)
	return n, true
}
