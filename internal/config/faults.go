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

// Fault is one wrong setting. The program exits with 2 for it.
type Fault struct {
	Key    string // as the operator typed it: flag, variable or key of the file
	Reason string // completes a sentence that starts with the key
}

// Error returns "key: reason". Neither contains the value of a secret.
func (f *Fault) Error() string { return f.Key + ": " + f.Reason }

// faultList collects what is wrong with settings.
type faultList struct {
	named func(setting string) string // how the operator typed a setting
	found []error                     // each is a [Fault]
}

// faultsOf returns what a part of the settings finds wrong with itself, joined.
func faultsOf(named func(setting string) string, part func(*faultList)) error {
	f := &faultList{named: named}
	part(f)
	return errors.Join(f.found...)
}

// refuse notes a fault if the setting is wrong.
func (f *faultList) refuse(wrong bool, setting, reason string) {
	if wrong {
		f.found = append(f.found, &Fault{Key: f.named(setting), Reason: reason})
	}
}

// refuseSecret refuses a secret that is a flag, and one that is given twice: as a setting and as
// the file of the setting of that name with -file.
func (f *faultList) refuseSecret(setting, value, file string) {
	f.refuse(f.named(setting) == "--"+setting && value != "", setting,
		"must not be a flag, which every user of this machine can read; use "+variable(setting)+" or --"+setting+"-file")
	f.refuse(value != "" && file != "", setting+"-file", "must not be given together with "+f.named(setting))
}

// valueOf returns a setting, or what its file holds. what names it in an error.
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

// meant returns the end of a fault that asks whether a name is meant. Empty: it is no name.
func meant(like string) string {
	if like == "" {
		return ""
	}
	return "; is " + like + " meant?"
}

// closest returns the name that has the longest common beginning with the unknown
// one. Empty: no name shares more than three letters. Mistakes are mostly in the last
// word of a name: drain-timout, egress-port.
func closest(unknown string, names []string) string {
	unknown = strings.ToLower(strings.ReplaceAll(unknown, "_", "-"))
	best, same := "", 3 // three letters or fewer are chance
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

// reasonOf returns the text of an error without the path of the file, because the
// fault's key names the setting already. It is empty for nil.
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

// isPublicURL reports whether the text is a URL of a server and no more.
func isPublicURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Hostname() != "" && u.Scheme+"://"+u.Host == strings.TrimSuffix(text, "/")
}

// isAddress reports whether the text is host:port with a numeric port. The host may
// be empty, which stands for every address of the machine.
func isAddress(text string) bool {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

// isPostgresURL reports whether the text is a PostgreSQL URL. Key-value connection
// strings are refused: holdsPassword would not find a password in them.
func isPostgresURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "postgres" || u.Scheme == "postgresql")
}

// holdsPassword reports whether a URL has a password, in its user part or in a
// parameter of PostgreSQL.
func holdsPassword(dsn string) bool {
	u, err := url.Parse(dsn)
	if err != nil {
		return true // a text that is no URL may hold a password anywhere
	}
	_, inUser := u.User.Password()
	return inUser || u.Query().Has("password") || u.Query().Has("sslpassword")
}

// MaskURL returns a URL with its passwords masked. A text that is no URL is masked
// as a whole.
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
