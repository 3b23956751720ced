package app

import (
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

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/egress"
	"github.com/postrider/postrider/internal/messenger"
)

// MailConfig says how notices are sent. Without a mail server, they are sent to webhooks
// alone.
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

// validate returns every fault of the settings. It reads the files that they name.
func (c MailConfig) validate(named func(setting string) string) error {
	var faults []error
	refuse := func(wrong bool, setting, reason string) {
		if wrong {
			faults = append(faults, &Fault{Key: named(setting), Reason: reason})
		}
	}
	refuse(c.NoticeInterval < time.Minute || c.NoticeInterval > 24*time.Hour, "notice-interval", "must be 1m to 24h")
	refuse(c.NoticeBrand == "" || len([]rune(c.NoticeBrand)) > 64, "notice-brand", "must be 1 to 64 characters")
	login, err := url.Parse(c.PortalLoginURL)
	refuse(c.PortalLoginURL != "" && (err != nil || login.Scheme != "https" && login.Scheme != "http" || login.Hostname() == "" || login.User != nil),
		"portal-login-url", "must be an http or https URL without a user")
	_, err = c.templates()
	refuse(err != nil, "notice-templates", "cannot be used: "+reasonOf(err))
	refuse(named("smtp-password") == "--smtp-password" && c.SMTPPassword != "", "smtp-password",
		"must not be a flag, which every user of this machine can read; use POSTRIDER_SMTP_PASSWORD or --smtp-password-file")
	refuse(c.SMTPPassword != "" && c.SMTPPasswordFile != "", "smtp-password-file", "must not be given together with "+named("smtp-password"))
	if c.SMTPURL == "" {
		refuse(c.SMTPFrom != "", "smtp-from", "needs "+named("smtp-url"))
		return errors.Join(faults...)
	}
	at, err := parseSMTP(c.SMTPURL)
	refuse(err != nil, "smtp-url", reasonOf(err))
	_, err = c.password()
	refuse(err != nil, "smtp-password-file", "cannot be read: "+reasonOf(err))
	password := c.SMTPPassword != "" || c.SMTPPasswordFile != ""
	refuse(at != nil && at.User.Username() != "" && !password, "smtp-password", "is required for the user of "+named("smtp-url")+"; use POSTRIDER_SMTP_PASSWORD or --smtp-password-file")
	refuse(at != nil && at.User.Username() == "" && password, "smtp-url", "must name a user for the password")
	_, err = c.authorities()
	refuse(err != nil, "smtp-ca-file", "cannot be used: "+reasonOf(err))
	from, err := mail.ParseAddress(c.SMTPFrom)
	refuse(err != nil || !strings.Contains(from.Address, "@"), "smtp-from", "must be an email address, perhaps with a name: Acme <webhooks@acme.example>")
	return errors.Join(faults...)
}

// smtpPorts are the kinds of connection by the scheme of the URL, with their usual ports.
var smtpPorts = map[string]struct {
	security messenger.Security
	port     string
}{"smtp": {messenger.StartTLS, "587"}, "smtps": {messenger.Implicit, "465"}, "smtp+plain": {messenger.Plain, "25"}}

// parseSMTP reads the URL of a mail server. Its error never has the text, which may hold a
// password.
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
	if c.SMTPPasswordFile == "" {
		return c.SMTPPassword, nil
	}
	text, err := os.ReadFile(c.SMTPPasswordFile)
	if err != nil {
		return "", fmt.Errorf("read mail password: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// authorities returns the authorities of the mail server. nil: those of the system.
func (c MailConfig) authorities() (*x509.CertPool, error) {
	if c.SMTPCAFile == "" {
		return nil, nil //nolint:nilnil // the system's
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

// templates returns the templates of emails.
func (c MailConfig) templates() (*messenger.Templates, error) {
	var folder fs.FS
	if c.NoticeTemplates != "" {
		if _, err := os.Stat(c.NoticeTemplates); err != nil {
			return nil, err
		}
		folder = os.DirFS(c.NoticeTemplates)
	}
	return messenger.LoadTemplates(folder)
}

// email returns the channel to the mail server; false: there is none.
func (c MailConfig) email() (messenger.Email, bool) {
	if c.SMTPURL == "" {
		return messenger.Email{}, false
	}
	at, _ := parseSMTP(c.SMTPURL) // validate has read all of these
	from, _ := mail.ParseAddress(c.SMTPFrom)
	authorities, _ := c.authorities()
	kind := smtpPorts[at.Scheme]
	port := at.Port()
	if port == "" {
		port = kind.port
	}
	return messenger.Email{
		Address: net.JoinHostPort(at.Hostname(), port), User: at.User.Username(), Password: c.password, Security: kind.security,
		TLS: &tls.Config{ServerName: at.Hostname(), RootCAs: authorities}, From: *from,
	}, true
}

// sendsEmails reports whether emails can be sent: they need a mail server, and a public URL for
// their links.
func (c Config) sendsEmails(listener net.Addr) bool {
	return c.SMTPURL != "" && c.publicURL(listener) != ""
}

// newMessenger returns what sends notices. Webhooks of accounts pass the guard.
func (a *App) newMessenger() *messenger.Messenger {
	channels := map[postrider.Channel]messenger.Channel{
		postrider.ChannelSlack: messenger.Slack{Guarded: a.egress.Post, Operator: egress.PostAsOperator},
	}
	if email, ok := a.config.email(); ok {
		channels[postrider.ChannelEmail] = email
	}
	templates, _ := a.config.templates() // validate has read them
	return messenger.New(messenger.Deps{Store: a.store, Signer: a.secrets, Channels: channels}, messenger.Options{
		Interval: a.config.NoticeInterval, Brand: a.config.NoticeBrand, PublicURL: a.config.publicURL(a.Addr()), Templates: templates,
		PortalLoginURL: a.config.PortalLoginURL,
		Hooks:          a.observer.Hooks, Log: logOf(a.log, "messenger"),
	})
}
