package testkit

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/mail"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

// The login of a [MailServer].
const (
	MailUser     = "postrider"
	MailPassword = "correct horse"
)

// MailServer is a mail server on this machine. It accepts emails after STARTTLS, or with TLS from
// the first byte, and only after a login. Set its fields before Start.
type MailServer struct {
	Insecure   bool               // no TLS, and a login without TLS
	Implicit   bool               // TLS from the first byte
	Mechanisms []string           // for the login; default PLAIN
	Refuse     func(string) error // called for each address; nil: accepts all
	RefuseFrom error              // error for every sender; nil: accepts all
	Took       func(Email)        // called for each email, one at a time; nil: Emails returns them
	CA         *CA                // set by Start and Listen
	Address    string             // host:port; set by Start and Listen

	mu     sync.Mutex
	emails []Email
	logins int
}

// Email is an email that a [MailServer] accepted.
type Email struct {
	To      string // of the envelope
	Header  mail.Header
	Content []byte
}

// Start starts the server. The end of the test ends the server.
func (s *MailServer) Start(tb testing.TB) *MailServer {
	tb.Helper()
	end, err := s.Listen(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := end(); err != nil {
			tb.Errorf("mail server: %v", err)
		}
	})
	return s
}

// Listen starts the server, and returns a function that ends the server.
func (s *MailServer) Listen(ctx context.Context) (end func() error, err error) {
	if s.CA, err = makeCA(); err != nil {
		return nil, err
	}
	certificate, err := s.CA.issue(leaf(time.Now().Add(time.Hour), "127.0.0.1"))
	if err != nil {
		return nil, err
	}
	config := &tls.Config{Certificates: []tls.Certificate{certificate.tls()}}
	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) {
		return &mailSession{server: s}, nil
	}))
	server.Domain, server.ReadTimeout, server.WriteTimeout, server.TLSConfig = "mail.example", Patience, Patience, config
	server.ErrorLog = discardMailLog{}
	if s.Insecure {
		server.TLSConfig, server.AllowInsecureAuth = nil, true
	}
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s.Address = listener.Addr().String()
	if s.Implicit {
		listener = tls.NewListener(listener, config)
	}
	var serving sync.WaitGroup
	var served error
	serving.Go(func() {
		if err := server.Serve(listener); !errors.Is(err, smtp.ErrServerClosed) {
			served = err
		}
	})
	return func() error {
		_ = server.Close()
		serving.Wait()
		return served
	}, nil
}

// discardMailLog drops what the library logs about clients that hang up.
type discardMailLog struct{}

func (discardMailLog) Printf(string, ...any) {}
func (discardMailLog) Println(...any)        {}

// Emails returns the emails that the server has accepted so far.
func (s *MailServer) Emails() []Email {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Email{}, s.emails...)
}

// Logins returns how many logins were tried.
func (s *MailServer) Logins() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logins
}

// mailSession is the session of one client.
type mailSession struct {
	server   *MailServer
	loggedIn bool
	to       string
}

// AuthMechanisms implements [smtp.AuthSession].
func (s *mailSession) AuthMechanisms() []string {
	if s.server.Mechanisms == nil {
		return []string{sasl.Plain}
	}
	return s.server.Mechanisms
}

// Auth implements [smtp.AuthSession].
func (s *mailSession) Auth(mechanism string) (sasl.Server, error) {
	s.server.mu.Lock()
	s.server.logins++
	s.server.mu.Unlock()
	check := func(user, password string) error {
		if s.loggedIn = user == MailUser && password == MailPassword; !s.loggedIn {
			return smtp.ErrAuthFailed
		}
		return nil
	}
	if mechanism == "LOGIN" {
		return &loginServer{check: check}, nil
	}
	return sasl.NewPlainServer(func(_, user, password string) error { return check(user, password) }), nil
}

// loginServer is the server's side of AUTH LOGIN.
type loginServer struct {
	check func(user, password string) error
	asked int
	user  string
}

// Next implements [sasl.Server].
func (l *loginServer) Next(response []byte) (challenge []byte, done bool, err error) {
	l.asked++
	switch {
	case l.asked == 1 && response == nil:
		return []byte("Username:"), false, nil
	case l.user == "":
		l.user = string(response)
		return []byte("Password:"), false, nil
	}
	return nil, true, l.check(l.user, string(response))
}

// Mail implements [smtp.Session].
func (s *mailSession) Mail(string, *smtp.MailOptions) error {
	if !s.loggedIn {
		return smtp.ErrAuthRequired
	}
	return s.server.RefuseFrom
}

// Rcpt implements [smtp.Session].
func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	if s.server.Refuse != nil {
		if err := s.server.Refuse(to); err != nil {
			return err
		}
	}
	s.to = to
	return nil
}

// Data implements [smtp.Session].
func (s *mailSession) Data(r io.Reader) error {
	content, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	parsed, err := mail.ReadMessage(bytes.NewReader(content))
	if err != nil {
		return err
	}
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	email := Email{To: s.to, Header: parsed.Header, Content: content}
	if s.server.Took != nil {
		s.server.Took(email)
	} else {
		s.server.emails = append(s.server.emails, email)
	}
	return nil
}

// Reset implements [smtp.Session].
func (s *mailSession) Reset() { s.to = "" }

// Logout implements [smtp.Session].
func (s *mailSession) Logout() error { return nil }
