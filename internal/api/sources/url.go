package sources

import (
	"net/url"
	"slices"
	"strings"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/api/rest"
)

// parameters are what the query of a connection string may have, besides the password. Others, such as
// sslkey and service, would name files of the server.
var parameters = []string{"application_name", "connect_timeout", "sslmode", "target_session_attrs"}

// modes are the values of sslmode. Others, such as prefer, fall back to a connection without TLS and tell
// nobody.
var modes = []string{"verify-full", "verify-ca", "require", "disable"}

// splitURL takes the password out of a connection string. No error quotes a part of the text, since a
// password with a slash could be in any of them. Package url cannot read a list of hosts, so the text is
// cut by hand.
func splitURL(text string) (stripped, password string, err error) {
	malformed := func(reason string) (string, string, error) {
		return "", "", rest.Invalid("database_url", postrider.FaultMalformed, reason)
	}
	scheme, after, _ := strings.Cut(text, "://")
	after, query, _ := strings.Cut(after, "?")
	authority, database, _ := strings.Cut(after, "/")
	at := strings.LastIndex(authority, "@")
	user, secret, _ := strings.Cut(authority[:max(at, 0)], ":")
	values, queryErr := url.ParseQuery(query)
	password, passwordErr := url.PathUnescape(secret)
	switch {
	case !postrider.IsText(text):
		return malformed("must be UTF-8 without control characters")
	case scheme != "postgres" && scheme != "postgresql", user == "", authority[at+1:] == "",
		database == "", strings.ContainsAny(database, "/@"):
		return malformed("must be like postgres://ROLE@HOST/DATABASE; give a password with characters such as / as password, or percent-encoded")
	case queryErr != nil, passwordErr != nil, strings.Contains(authority[at+1:]+database, "#"):
		return malformed("has a part that is not percent-encoded")
	}
	if values.Has("password") {
		password = values.Get("password")
		values.Del("password")
	}
	for name := range values {
		if !slices.Contains(parameters, name) {
			return malformed("may have only the parameters " + strings.Join(parameters, ", ") + " and password")
		}
	}
	if mode := values.Get("sslmode"); values.Has("sslmode") && !slices.Contains(modes, mode) {
		return malformed("must have one of these as sslmode: " + strings.Join(modes, ", "))
	}
	stripped = scheme + "://" + user + "@" + authority[at+1:] + "/" + database
	if len(values) > 0 {
		stripped += "?" + values.Encode()
	}
	return stripped, password, nil
}

// server returns the role, the host and the port of a connection string without a password.
func server(stripped string) string {
	_, text, _ := strings.Cut(stripped, "://")
	authority, _, _ := strings.Cut(text, "/")
	return authority
}

// database returns the hosts, the database and the table that a source reads.
func database(s postrider.Source) string {
	url, _, _ := strings.Cut(s.URL, "?")
	table := ""
	if s.Table != nil {
		table = s.Table.Name
	}
	return url[strings.LastIndex(url, "@")+1:] + " " + table
}
