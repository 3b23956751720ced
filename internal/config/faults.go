package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
)

// Fault is one wrong setting. With a fault, the program exits with status 2.
type Fault struct {
	Key    string // as the operator typed it: a flag, a variable or a key of the file
	Reason string // completes a sentence that begins with Key
}

// Error returns "key: reason". Neither part contains a secret.
func (f *Fault) Error() string { return f.Key + ": " + f.Reason }

// faultList collects the faults of settings.
type faultList struct {
	named func(setting string) string // returns how the operator typed a setting
	found []error                     // each one is a [*Fault]
}

// faultsOf returns the faults that part adds to a list, joined.
func faultsOf(named func(setting string) string, part func(*faultList)) error {
	f := &faultList{named: named}
	part(f)
	return errors.Join(f.found...)
}

// refuse adds a fault if the setting is wrong.
func (f *faultList) refuse(wrong bool, setting, reason string) {
	if wrong {
		f.found = append(f.found, &Fault{Key: f.named(setting), Reason: reason})
	}
}

// refuseSecret adds a fault if a secret is set by a flag. It also adds a fault if a secret is set
// twice: by the setting, and by the setting with the suffix -file.
func (f *faultList) refuseSecret(setting, value, file string) {
	f.refuse(f.named(setting) == "--"+setting && value != "", setting,
		"must not be a flag, which every user of this machine can read; use "+variable(setting)+" or --"+setting+"-file")
	f.refuse(value != "" && file != "", setting+"-file", "must not be given together with "+f.named(setting))
}

// valueOf returns the setting or, if file is not empty, the content of the file. what is the name
// of the value in an error.
func valueOf(setting, file, what string) (string, error) {
	if file == "" {
		return setting, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", what, err)
	}
	return strings.TrimSpace(string(text)), nil
}

// variable returns the name of the environment variable of a setting.
func variable(setting string) string {
	return "POSTRIDER_" + strings.ToUpper(strings.ReplaceAll(setting, "-", "_"))
}

// meant returns the end of a fault that suggests a name. If like is empty, it returns nothing.
func meant(like string) string {
	if like == "" {
		return ""
	}
	return "; is " + like + " meant?"
}

// closest returns the name that has the longest common beginning with the unknown name. Empty: no
// name has more than three letters in common. A long common beginning is a good measure, because
// mistakes are mostly in the last word of a name: drain-timout, egress-port.
func closest(unknown string, names []string) string {
	unknown = strings.ToLower(strings.ReplaceAll(unknown, "_", "-"))
	best, same := "", 3 // three letters or fewer are a coincidence
	for _, name := range names {
		n := 0
		for n < min(len(name), len(unknown)) && name[n] == unknown[n] {
			n++
		}
		if n > same {
			best, same = name, n
		}
	}
	return best
}

// reasonOf returns the text of an error without the path of the file, because the setting in the
// fault's key has the path. For nil it returns "".
func reasonOf(err error) string {
	var path *os.PathError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &path):
		return path.Err.Error()
	}
	return err.Error()
}

// isPublicURL reports whether the text is an http or https URL with only a host and perhaps a port.
func isPublicURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Hostname() != "" &&
		u.Scheme+"://"+u.Host == strings.TrimSuffix(text, "/")
}

// isAddress reports whether the text is host:port with a numeric port. An empty host is allowed: it
// means every address of the machine.
func isAddress(text string) bool {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

// isPostgresURL reports whether the text is a PostgreSQL URL. Connection strings of keywords and
// values are refused, because holdsPassword would not find a password in them.
func isPostgresURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "postgres" || u.Scheme == "postgresql")
}

// holdsPassword reports whether a URL has a password, either in the user part or in a PostgreSQL
// parameter.
func holdsPassword(dsn string) bool {
	u, err := url.Parse(dsn)
	if err != nil {
		return true // a text that is no URL may hold a password anywhere
	}
	_, inUser := u.User.Password()
	return inUser || u.Query().Has("password") || u.Query().Has("sslpassword")
}

// MaskURL returns a URL with its passwords masked. If the text is no URL, it masks the whole text.
func MaskURL(dsn string) string {
	if dsn == "" {
		return ""
	}
	u, err := url.Parse(dsn)
	if err != nil || u.Scheme == "" {
		return "xxxxx"
	}
	query := u.Query()
	for _, secret := range []string{"password", "sslpassword"} {
		if query.Has(secret) {
			query.Set(secret, "xxxxx")
			u.RawQuery = query.Encode()
		}
	}
	return u.Redacted()
}
