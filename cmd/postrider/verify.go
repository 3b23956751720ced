package main

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/postrider/postrider/signature"
)

type verifyCmd struct {
	Body       string        `arg:"" default:"-" help:"File with the body as it came, byte for byte; - reads stdin."`
	Header     []string      `short:"H" sep:"none" placeholder:"NAME: VALUE" help:"A header of the request, as in -H 'Webhook-Id: evt_1'. May be repeated."`
	HeaderFile string        `type:"path" placeholder:"FILE" help:"File with the headers of the request, one a line."`
	Scheme     string        `enum:"standard,timestamped,plain" default:"standard" help:"How the request is signed: ${enum}."`
	SecretFile string        `placeholder:"FILE" help:"File with the endpoint's secret, one a line during a rotation; - reads stdin. Default: the variable POSTRIDER_SECRET."`
	Tolerance  time.Duration `default:"5m" help:"How old or new the timestamp may be."`
	At         time.Time     `placeholder:"2026-01-02T15:04:05Z" help:"Verify as of this time. Default: now."`
}

// Help is what the help of the command says besides its flags.
func (verifyCmd) Help() string {
	return "Exits with 0 when the request is authentic, with 1 when it is not. For example:\n\n" +
		"  POSTRIDER_SECRET=whsec_… postrider verify --header-file headers.txt body.json"
}

// Run says whether the request is authentic, and why not.
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
	verifier := signature.Verifier{Scheme: signature.Scheme(c.Scheme), Keys: keys, Tolerance: c.Tolerance}
	if err := verifier.Verify(headers, body, now); err != nil {
		return fmt.Errorf("not authentic: %w", err)
	}
	_, err = fmt.Fprintln(t.out, "authentic")
	return err
}

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
		secret, err := signature.ParseSecret(line)
		if err != nil {
			return nil, misused("%v", err)
		}
		keys = append(keys, signature.Key{Secret: secret})
	}
	if len(keys) == 0 {
		return nil, misused("no secret: set POSTRIDER_SECRET or name a file with --secret-file")
	}
	return keys, nil
}

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
		case line != "" && !strings.Contains(line, " HTTP/") && !strings.HasPrefix(line, "HTTP/"): // a request's first line
			return nil, misused("--header: must be NAME: VALUE, not %q", shorten(line))
		}
	}
	return headers, nil
}
