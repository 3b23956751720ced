package messenger

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	netmail "net/mail"
	"strconv"
	"strings"
	"time"

	"github.com/wneessen/go-mail"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/egress"
)

// Email sends messages through a mail server.
type Email struct {
	Address string // host:port of the mail server
	User    string // empty: no login
	// Password returns the password. It is called before each connection.
	Password func() (string, error)
	Security Security
	TLS      *tls.Config // its ServerName is the name of the server
	From     netmail.Address
	// Timeout limits each step with the mail server: the greeting with the login, and then each
	// message. Zero: 20 seconds.
	Timeout time.Duration
}

// Security says how the connection to the mail server is encrypted.
type Security string

// The kinds of encryption.
const (
	StartTLS Security = "starttls" // TLS after the greeting; a server without TLS gets no message
	Implicit Security = "implicit" // TLS from the first byte
	Plain    Security = "none"     // not encrypted, for a mail server on the same machine
)

// Send implements [Channel]. All messages share one connection.
func (e Email) Send(ctx context.Context, messages []Message, done func(i int, err error)) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // closes the connection
	client, err := e.connect(ctx)
	if err != nil {
		err = serverError(ctx, err)
	}
	for i, message := range messages {
		if err != nil { // an error of the connection, which the other messages need too
			done(i, err)
			continue
		}
		sendErr := e.send(client, message)
		done(i, mailError(ctx, sendErr))
		if sendErr != nil && !isOfMessage(sendErr) {
			err = mailError(ctx, sendErr)
		}
	}
	if err == nil {
		// Close ends the SMTP session. An error does not matter, since all messages were sent.
		_ = client.Close()
	}
}

// connect greets the mail server and logs in.
func (e Email) connect(ctx context.Context) (*mail.Client, error) {
	client, err := e.client(ctx)
	if err != nil {
		return nil, err
	}
	return client, client.DialWithContext(ctx)
}

// client returns a client of the mail server that is not connected yet. Its connections are closed
// when ctx ends.
func (e Email) client(ctx context.Context) (*mail.Client, error) {
	host, port, err := net.SplitHostPort(e.Address)
	if err != nil {
		return nil, fmt.Errorf("read address of the mail server: %w", err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return nil, fmt.Errorf("read port of the mail server: %w", err)
	}
	policy := mail.TLSMandatory
	if e.Security != StartTLS {
		policy = mail.NoTLS
	}
	_, domain, _ := strings.Cut(e.From.Address, "@")
	options := []mail.Option{
		mail.WithPort(number), mail.WithTimeout(cmp.Or(e.Timeout, 20*time.Second)), mail.WithHELO(domain), mail.WithTLSPolicy(policy),
		mail.WithTLSConfig(e.TLS),
		mail.WithDialContextFunc(func(dialing context.Context, network, address string) (net.Conn, error) {
			connection, err := egress.DialOperator(dialing, network, address)
			if err != nil {
				return nil, err
			}
			return e.secure(ctx, dialing, connection)
		}),
	}
	if e.User != "" {
		password, err := e.Password()
		if err != nil {
			return nil, err
		}
		options = append(options, mail.WithUsername(e.User), mail.WithPassword(password),
			mail.WithOpportunisticSMTPAuth(mail.SMTPAuthPlain, mail.SMTPAuthLogin))
	}
	client, err := mail.NewClient(host, options...)
	if err != nil {
		return nil, fmt.Errorf("configure the client of the mail server: %w", err)
	}
	return client, nil
}

// Step is a step of the dialogue with the mail server.
type Step string

// The steps of [Email.Check].
const (
	StepConnect Step = "connect"
	StepEncrypt Step = "encrypt" // the greeting of the server, and TLS
	StepLogin   Step = "login"
	StepSender  Step = "sender" // the sender address of the emails
)

// Check connects to the mail server, encrypts, logs in and names the sender, as Send does before an
// email. It sends no email. failed is the step with the error. The first two steps
// have connections of their own, to find out which step fails.
func (e Email) Check(ctx context.Context) (failed Step, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // closes the connections
	connection, err := egress.DialOperator(ctx, "tcp", e.Address)
	if err != nil {
		return StepConnect, cause(ctx, err)
	}
	_ = connection.Close()
	stranger := e
	stranger.User = ""
	for _, as := range []struct {
		Email
		step Step
	}{{stranger, StepEncrypt}, {e, StepLogin}} {
		client, err := as.client(ctx)
		if err != nil {
			return as.step, err
		}
		session, err := client.DialToSMTPClientWithContext(ctx)
		if err != nil {
			return as.step, cause(ctx, err)
		}
		if as.step == StepLogin {
			if err := session.Mail(e.From.Address); err != nil {
				return StepSender, cause(ctx, err)
			}
		}
		_ = client.CloseWithSMTPClient(session) // the server drops the email that Mail has begun
	}
	return "", nil
}

// secure makes the TLS handshake, if Security is Implicit. The connection is closed when ctx ends,
// even if the library waits for something then: the library leaves connections open whose greeting
// failed.
func (e Email) secure(ctx, dialing context.Context, connection net.Conn) (net.Conn, error) {
	context.AfterFunc(ctx, func() { _ = connection.Close() })
	if e.Security != Implicit {
		return connection, nil
	}
	secured := tls.Client(connection, e.TLS)
	if err := secured.HandshakeContext(dialing); err != nil {
		return nil, fmt.Errorf("TLS handshake: %w", err)
	}
	return secured, nil
}

// send sends one message.
func (e Email) send(client *mail.Client, m Message) error {
	email, err := e.email(m)
	if err != nil {
		return err
	}
	return client.Send(email)
}

// email converts the message to an email. Each header value is a single line. If net/mail cannot
// parse the address, email returns an error.
func (e Email) email(m Message) (*mail.Msg, error) {
	to, err := netmail.ParseAddress(m.To.Address)
	if err != nil {
		return nil, fmt.Errorf("%w: no email address", ErrRefused)
	}
	_, domain, _ := strings.Cut(e.From.Address, "@")
	email := mail.NewMsg(mail.WithNoDefaultUserAgent())
	email.FromMailAddress(&e.From)
	email.ToMailAddress(&netmail.Address{Address: to.Address})
	email.Subject(m.Subject)
	email.SetMessageIDWithValue(m.ID + "@" + domain)
	email.SetDate()
	email.SetGenHeader("Auto-Submitted", "auto-generated") // RFC 3834: no automatic replies
	if m.Unsubscribe != "" {
		email.SetGenHeader(mail.HeaderListUnsubscribe, "<"+m.Unsubscribe+">")
		email.SetGenHeader(mail.HeaderListUnsubscribePost, "List-Unsubscribe=One-Click")
	}
	email.SetBodyString(mail.TypeTextPlain, m.Text)
	email.AddAlternativeString(mail.TypeTextHTML, m.HTML)
	return email, nil
}

// isOfMessage reports whether an error is about one message: the server answered with a code. Then
// the connection can take the next message.
func isOfMessage(err error) bool {
	failed, ok := errors.AsType[*mail.SendError](err)
	return ok && failed.ErrorCode() != 0 || errors.Is(err, ErrRefused)
}

// mailError returns the error of one message, without the address. If the server refuses the
// address with a permanent code, the error matches ErrRefused. Codes for other parts, such as the
// sender or the content, may have their cause in the set-up, so these messages are tried again.
func mailError(ctx context.Context, err error) error {
	failed, ok := errors.AsType[*mail.SendError](err)
	switch {
	case err == nil || errors.Is(err, ErrRefused):
		return err
	case ok && failed.Reason == mail.ErrSMTPReset: // the server has taken the message by then
		return nil
	case ok && failed.ErrorCode() != 0:
		code := strings.TrimSpace(strconv.Itoa(failed.ErrorCode()) + " " + failed.EnhancedStatusCode())
		if failed.Reason == mail.ErrSMTPRcptTo && !failed.IsTemp() {
			return fmt.Errorf("%w: %s", ErrRefused, code)
		}
		return fmt.Errorf("%s: %s: %s", postrider.FailureMailRejected, code, failed.Reason)
	case ok: // the text of failed may contain the address
		return serverError(ctx, errors.New(failed.Reason.String()))
	}
	return serverError(ctx, err)
}

// serverError returns the failure for a mail server that cannot be used.
func serverError(ctx context.Context, err error) error {
	return &postrider.FailureError{Failure: postrider.FailureMailServer, Err: cause(ctx, err)}
}

// cause returns the cause of ctx if ctx has ended, since that closed the connection; otherwise err.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
