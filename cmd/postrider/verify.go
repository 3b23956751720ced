package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/postrider/postrider/signature"
)

// verifyCmd is the command verify. It checks a webhook on this machine without a server, as package
// signature does in a receiver. It helps to find out why a receiver refuses a request. With the
// headers and the body in files, it shows whether the secret, the timestamp or the bytes are wrong.
type verifyCmd struct {
	Body       string        `arg:"" default:"-" help:"File with the unchanged bytes of the body; - reads stdin."`
	Header     []string      `short:"H" sep:"none" placeholder:"NAME: VALUE" help:"A header of the request, for example -H 'Webhook-Id: evt_1'. Can be repeated."`
	HeaderFile string        `type:"path" placeholder:"FILE" help:"File with the headers of the request, one per line."`
	Scheme     string        `enum:"standard,stripe,github,github-sha1,shopify,slack,svix,timestamped,plain" default:"standard" help:"How the request is signed: ${enum}."`
	SignedIn   string        `placeholder:"NAME" help:"Header with the signature, for github, github-sha1, shopify and plain. Default: the header of the scheme."`
	Prefix     string        `help:"Text in front of the signature in that header, for example sha256=. Default: none."`
	SecretFile string        `placeholder:"FILE" help:"File with the endpoint's secret or public key, one per line; - reads stdin. Default: the variable POSTRIDER_SECRET."`
	Tolerance  time.Duration `default:"5m" help:"How far the timestamp may be from the time of the verification, for example 5m."`
	At         time.Time     `placeholder:"2026-01-02T15:04:05Z" help:"Verify the timestamp against this time. Default: now."`
}

// Help returns the text above the flags in the help of the command.
func (verifyCmd) Help() string {
	return "Exits with 0 if the request is authentic and with 1 if it is not. For example:\n\n" +
		"  POSTRIDER_SECRET=whsec_… postrider verify --header-file headers.txt body.json"
}

// Run prints "authentic", or returns the reason why the request is not authentic. The exit code is 1
// if the request is not authentic, and 2 if the scheme or a secret cannot be used.
func (c *verifyCmd) Run(t terminal) error {
	if c.Body == "-" && c.SecretFile == "-" {
		return misused("--secret-file: only one of the body and the secret can be read from stdin")
	}
	keys, err := c.keys(t)
	if err != nil {
		return err
	}
	headers, err := c.headers()
	if err != nil {
		return err
	}
	body, err := readSource(t, c.Body)
	if err != nil {
		return fmt.Errorf("read body: %w", err)
	}
	now := c.At
	if now.IsZero() {
		now = time.Now()
	}
	// An empty Header means the header of the scheme.
	verifier := signature.Verifier{
		Format:    signature.Format{Scheme: signature.Scheme(c.Scheme), Header: c.SignedIn, Prefix: c.Prefix},
		Keys:      keys,
		Tolerance: c.Tolerance,
	}
	switch err := verifier.Verify(headers, body, now); {
	case errors.Is(err, signature.ErrFormat) || errors.Is(err, signature.ErrNoKey):
		return misused("%v", err)
	case err != nil:
		return fmt.Errorf("not authentic: %w", err)
	}
	_, err = fmt.Fprintln(t.out, "authentic")
	return err
}

// keys returns the keys to verify with: one for each word of the secret file, or of
// POSTRIDER_SECRET if no file is given. During a rotation there are several keys, and a signature
// by one of them is enough.
func (c *verifyCmd) keys(t terminal) ([]signature.Key, error) {
	text := os.Getenv("POSTRIDER_SECRET")
	if c.SecretFile != "" {
		file, err := readSource(t, c.SecretFile)
		if err != nil {
			return nil, fmt.Errorf("read secret: %w", err)
		}
		text = string(file)
	}
	var keys []signature.Key
	for line := range strings.FieldsSeq(text) {
		secret, err := readSecret(line)
		if err != nil {
			return nil, err
		}
		keys = append(keys, signature.Key{Secret: secret})
	}
	if len(keys) == 0 {
		return nil, misused("no secret: set POSTRIDER_SECRET or name a file with --secret-file")
	}
	return keys, nil
}

// readSecret parses a secret in one of Postrider's own forms, such as whsec_… It uses any other
// text unchanged, because secrets of other senders have no such form. If both fail, the error has
// both reasons.
func readSecret(text string) (signature.Secret, error) {
	secret, err := signature.ParseSecret(text)
	if err == nil {
		return secret, nil
	}
	secret, textErr := signature.TextSecret(text)
	if textErr != nil {
		return signature.Secret{}, misused("%v; as a secret of another sender: %v", err, textErr)
	}
	return secret, nil
}

// headers returns the headers of the flags and of the header file. It skips blank lines and a
// request or status line. So people can use a copied request unchanged, for example the output of
// curl -i.
func (c *verifyCmd) headers() (http.Header, error) {
	lines := c.Header
	if c.HeaderFile != "" {
		file, err := os.ReadFile(c.HeaderFile)
		if err != nil {
			return nil, fmt.Errorf("read headers: %w", err)
		}
		lines = append(lines, strings.Split(string(file), "\n")...)
	}
	headers := http.Header{}
	for _, line := range lines {
		line = strings.TrimRight(line, "\r")
		name, value, ok := strings.Cut(line, ":")
		switch {
		case ok:
			headers.Add(name, strings.TrimSpace(value))
		// The first line of a request or response.
		case line != "" && !strings.Contains(line, " HTTP/") && !strings.HasPrefix(line, "HTTP/"):
			return nil, misused("--header: must be NAME: VALUE, not %q", shorten(line))
		}
	}
	return headers, nil
}
