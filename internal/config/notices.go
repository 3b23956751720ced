package config

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/mail"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/postrider/postrider/internal/messenger"
)

// NoticeConfig says when the owner of an endpoint gets a notice about dead letters or about an open
// circuit.
type NoticeConfig struct {
	NoticeDeadLetters int           `name:"notice-dead-letters" setting:"" group:"Notices" default:"100" help:"Dead letters of an endpoint within 24 hours from which its owner gets a notice, 1 to 1000000."`
	NoticeCircuitOpen time.Duration `name:"notice-circuit-open" setting:"" group:"Notices" default:"1h" help:"How long an endpoint with an open circuit has accepted nothing before its owner gets a notice, 1m to 2160h."`
}

func (c NoticeConfig) check(f *faultList) {
	f.refuse(c.NoticeDeadLetters < 1 || c.NoticeDeadLetters > 1_000_000, "notice-dead-letters", "must be 1 to 1000000")
	f.refuse(c.NoticeCircuitOpen < time.Minute || c.NoticeCircuitOpen > 90*24*time.Hour, "notice-circuit-open", "must be 1m to 2160h")
}

// MailConfig says how notices are sent. Without a mail server, they are sent only to webhooks.
type MailConfig struct {
	SMTPURL          string        `name:"smtp-url" setting:"" group:"Notices" placeholder:"URL" help:"Mail server for notices: smtp://user@host:587 for STARTTLS, smtps://user@host:465 for TLS from the first byte, or smtp+plain://127.0.0.1:25 for a mail server on this machine, without encryption and login. A server without STARTTLS gets nothing. Default: none, and no emails are sent."`
	SMTPPassword     string        `name:"smtp-password" setting:"" group:"Notices" placeholder:"PASSWORD" help:"Password at the mail server. Set it in the environment or use --smtp-password-file; as a flag it is refused."`
	SMTPPasswordFile string        `name:"smtp-password-file" setting:"" group:"Notices" placeholder:"FILE" help:"File with the password at the mail server. It is read for each connection."`
	SMTPCAFile       string        `name:"smtp-ca-file" setting:"" group:"Notices" placeholder:"FILE" help:"PEM file with the authorities that the mail server's certificate must come from. Default: those of the system."`
	SMTPFrom         string        `name:"smtp-from" setting:"" group:"Notices" placeholder:"ADDRESS" help:"Sender of the emails, for example \"Acme Webhooks <webhooks@acme.example>\". Required with --smtp-url."`
	NoticeInterval   time.Duration `name:"notice-interval" setting:"" group:"Notices" default:"10m" help:"Least time between two messages to one destination, 1m to 24h. One message has all notices of that time."`
	NoticeBrand      string        `name:"notice-brand" setting:"" group:"Notices" default:"Postrider" help:"Name of your platform in subjects and texts of messages, at most 64 characters."`
	PortalLoginURL   string        `name:"portal-login-url" setting:"" group:"Notices" placeholder:"URL" help:"Page of your platform that opens the customer portal, for example https://app.example.com/webhooks. Links in messages to accounts lead there, with the page of the portal as portal_page in the query. Default: none, and links lead to the portal, where only who has a session sees the page."`
	NoticeTemplates  string        `name:"notice-templates" setting:"" group:"Notices" placeholder:"DIR" help:"Folder with message.txt and message.html, which replace the templates of emails. Default: none."`
}

// check adds the faults of these settings. It reads the files that they name.
func (c MailConfig) check(f *faultList) {
	f.refuse(c.NoticeInterval < time.Minute || c.NoticeInterval > 24*time.Hour, "notice-interval", "must be 1m to 24h")
	f.refuse(c.NoticeBrand == "" || len([]rune(c.NoticeBrand)) > 64, "notice-brand", "must be 1 to 64 characters")
	login, err := url.Parse(c.PortalLoginURL)
	f.refuse(c.PortalLoginURL != "" && (err != nil || login.Scheme != "https" && login.Scheme != "http" || login.Hostname() == "" ||
		login.User != nil),
		"portal-login-url", "must be an http or https URL without a user")
	_, err = c.Templates()
	f.refuse(err != nil, "notice-templates", "cannot be used: "+reasonOf(err))
	f.refuseSecret("smtp-password", c.SMTPPassword, c.SMTPPasswordFile)
	if c.SMTPURL == "" {
		f.refuse(c.SMTPFrom != "", "smtp-from", "needs "+f.named("smtp-url"))
		return
	}
	at, err := parseSMTP(c.SMTPURL)
	f.refuse(err != nil, "smtp-url", reasonOf(err))
	_, err = c.password()
	f.refuse(err != nil, "smtp-password-file", "cannot be read: "+reasonOf(err))
	password := c.SMTPPassword != "" || c.SMTPPasswordFile != ""
	f.refuse(at != nil && at.User.Username() != "" && !password, "smtp-password",
		"is required for the user of "+f.named("smtp-url")+"; use POSTRIDER_SMTP_PASSWORD or --smtp-password-file")
	f.refuse(at != nil && at.User.Username() == "" && password, "smtp-url", "must name a user for the password")
	_, err = c.authorities()
	f.refuse(err != nil, "smtp-ca-file", "cannot be used: "+reasonOf(err))
	from, err := mail.ParseAddress(c.SMTPFrom)
	f.refuse(err != nil || !strings.Contains(from.Address, "@"), "smtp-from",
		"must be an email address, perhaps with a name: Acme <webhooks@acme.example>")
}

// smtpPorts has, by the scheme of the URL, the kind of encryption and the usual port.
var smtpPorts = map[string]struct {
	security messenger.Security
	port     string
}{"smtp": {messenger.StartTLS, "587"}, "smtps": {messenger.Implicit, "465"}, "smtp+plain": {messenger.Plain, "25"}}

// parseSMTP parses the URL of a mail server. The error never contains the text, because it may have
// a password.
func parseSMTP(raw string) (*url.URL, error) {
	at, err := url.Parse(raw)
	if err != nil || at.Hostname() == "" || smtpPorts[at.Scheme].port == "" || strings.Trim(at.Path, "/") != "" || at.RawQuery != "" {
		return nil, errors.New("must be smtp://user@host:port, smtps://user@host:port or smtp+plain://host:port")
	}
	if _, given := at.User.Password(); given {
		return nil, errors.New("must not hold the password; use POSTRIDER_SMTP_PASSWORD or --smtp-password-file")
	}
	if at.Scheme == "smtp+plain" && at.User.Username() != "" {
		return nil, errors.New("must not have a user: without encryption, the network would read the password")
	}
	return at, nil
}

// password returns the password at the mail server, from the setting or from its file.
func (c MailConfig) password() (string, error) {
	return valueOf(c.SMTPPassword, c.SMTPPasswordFile, "mail password")
}

// authorities returns the certificate authorities for the mail server. nil: the authorities of the system.
func (c MailConfig) authorities() (*x509.CertPool, error) {
	if c.SMTPCAFile == "" {
		return nil, nil //nolint:nilnil // nil means the authorities of the system
	}
	text, err := os.ReadFile(c.SMTPCAFile)
	if err != nil {
		return nil, fmt.Errorf("read authorities: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, errors.New("it has no certificate in PEM")
	}
	return pool, nil
}

// Templates returns the templates of emails.
func (c MailConfig) Templates() (*messenger.Templates, error) {
	var folder fs.FS
	if c.NoticeTemplates != "" {
		if _, err := os.Stat(c.NoticeTemplates); err != nil {
			return nil, err
		}
		folder = os.DirFS(c.NoticeTemplates)
	}
	return messenger.LoadTemplates(folder)
}

// Email returns the channel to the mail server; false: there is no mail server.
func (c MailConfig) Email() (messenger.Email, bool) {
	if c.SMTPURL == "" {
		return messenger.Email{}, false
	}
	at, _ := parseSMTP(c.SMTPURL) // check has read this and the next two
	from, _ := mail.ParseAddress(c.SMTPFrom)
	authorities, _ := c.authorities()
	kind := smtpPorts[at.Scheme]
	return messenger.Email{
		Address: net.JoinHostPort(at.Hostname(), cmp.Or(at.Port(), kind.port)), User: at.User.Username(), Password: c.password,
		Security: kind.security,
		TLS:      &tls.Config{ServerName: at.Hostname(), RootCAs: authorities}, From: *from,
	}, true
}
