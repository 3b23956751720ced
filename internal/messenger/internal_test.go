package messenger

// TestTexts is inside the package, because the texts and the parts of a message are not exported.

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	netmail "net/mail"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/egress"
	"github.com/postrider/postrider/internal/testkit"
)

func TestTexts(t *testing.T) {
	t.Parallel()
	argument := regexp.MustCompile(`\{[a-z_]+\}`)
	if got := slices.Sorted(maps.Keys(catalogues)); !slices.Equal(got, postrider.MessageLanguages) {
		t.Errorf("the languages are %q, want %q", got, postrider.MessageLanguages)
	}
	for _, language := range postrider.MessageLanguages {
		texts := catalogues[language]
		for key, english := range catalogues["en"] {
			want := slices.Sorted(slices.Values(argument.FindAllString(english, -1)))
			if got := slices.Sorted(slices.Values(argument.FindAllString(texts[key], -1))); texts[key] == "" || !slices.Equal(got, want) {
				t.Errorf("%s: %s has the arguments %q, want %q", language, key, got, want)
			}
		}
		for key := range texts {
			if catalogues["en"][key] == "" {
				t.Errorf("%s: %s is a text that English has not", language, key)
			}
		}
		for _, kind := range postrider.NoticeKinds {
			for _, key := range []string{"kind." + string(kind), "notice." + string(kind)} {
				if texts[key] == "" {
					t.Errorf("%s: there is no text %s", language, key)
				}
			}
		}
	}
}

func TestATemplateWithAMistakeIsRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, file, source, want string }{
		{"it cannot be parsed", "message.txt", "a\nb {{if}}", "message.txt:2"},
		{"it cannot be parsed as HTML", "message.html", "<p>\n\n{{range .Lines}}", "message.html:3"},
		{"a field that does not exist", "message.html", "<p>\n{{.Titel}}", "message.html:2:2"},
		{"a field of a line that does not exist", "message.txt", "{{range .Lines}}\n\n{{.Txt}}{{end}}", "message.txt:3:2"},
		{"a value in a place that cannot be escaped", "message.html", "<script>\n`{{.Title}}", "message.html"},
	} {
		_, err := LoadTemplates(fstest.MapFS{tt.file: {Data: []byte(tt.source)}})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: the error is %v, want it to name %s", tt.name, err, tt.want)
		}
	}
	own, err := LoadTemplates(fstest.MapFS{"message.txt": {Data: []byte("Hello, {{.Title}}")}})
	if err != nil {
		t.Fatal(err)
	}
	plain, html, err := own.render(Layout{Title: "<b>"})
	if plain != "Hello, <b>" || !strings.Contains(html, "&lt;b&gt;") || err != nil {
		t.Errorf("rendered %q, %q, %v", plain, html, err)
	}
}

func TestTemplatesLoadNothingFromElsewhere(t *testing.T) {
	t.Parallel()
	_, html, err := builtIn().render(examples[1])
	if err != nil {
		t.Fatal(err)
	}
	if loads := regexp.MustCompile(`(?i)<(img|link|script|iframe|object)|url\(|@import`).FindString(html); loads != "" {
		t.Errorf("the email has %q", loads)
	}
}

// FuzzEmailHeaders shows that no text adds a header, a recipient or a line.
func FuzzEmailHeaders(f *testing.F) {
	for _, seed := range []string{
		"Acme", "a\r\nBcc: eve@evil.example", "a\nb", "ä\u2028\u0000\x7f", strings.Repeat("x ", 300),
		"=?utf-8?q?=0d=0aBcc:_x?=", "\xff",
	} {
		f.Add(seed, seed)
	}
	e := Email{From: netmail.Address{Name: "Acme", Address: "hooks@acme.example"}}
	f.Fuzz(func(t *testing.T, brand, title string) {
		m := &Messenger{opts: Options{Brand: brand}.withDefaults()}
		message, err := m.finish(Message{
			To: postrider.Destination{Address: "ann@acme.example"}, ID: "dst_1.x", Unsubscribe: "https://hooks.acme.example/notices/unsubscribe/x",
		}, Layout{Title: title, Lines: []Line{{Text: title}}})
		if err != nil {
			t.Fatal(err)
		}
		email, err := e.email(message)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if _, err := email.WriteTo(&out); err != nil {
			t.Fatal(err)
		}
		parsed, err := netmail.ReadMessage(&out)
		if err != nil {
			t.Fatal(err)
		}
		got := slices.Sorted(maps.Keys(parsed.Header))
		want := []string{
			"Auto-Submitted", "Content-Type", "Date", "From", "List-Unsubscribe", "List-Unsubscribe-Post", "Message-Id",
			"Mime-Version", "Subject", "To",
		}
		if !slices.Equal(got, want) || parsed.Header.Get("To") != "<ann@acme.example>" {
			t.Errorf("the headers are %q, to %q", got, parsed.Header.Get("To"))
		}
		for name, values := range parsed.Header {
			if len(values) != 1 {
				t.Errorf("the header %s is there %d times", name, len(values))
			}
		}
	})
}

func TestAnAddressThatIsNoneIsRefused(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"", "ann", "ann@acme.example\r\nRCPT TO:<eve@evil.example>", "a@b.example, c@d.example"} {
		_, err := Email{From: netmail.Address{Address: "hooks@acme.example"}}.email(Message{To: postrider.Destination{Address: address}})
		if !errors.Is(err, ErrRefused) {
			t.Errorf("%q: %v, want that it is refused", address, err)
		}
	}
}

// slackServer starts a webhook whose answer depends on the path, and which records the requests.
func slackServer(t *testing.T) (address string, got chan string) {
	t.Helper()
	got = make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("read: %v", err)
		}
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, "/ok", http.StatusTemporaryRedirect)
		case "/gone":
			w.WriteHeader(http.StatusGone)
		case "/broken":
			w.WriteHeader(http.StatusInternalServerError)
		default:
			var message struct{ Text string }
			if err := json.Unmarshal(body, &message); err != nil || r.Header.Get("Content-Type") != "application/json" {
				t.Errorf("the body is %q of the type %q: %v", body, r.Header.Get("Content-Type"), err)
			}
			got <- message.Text
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, got
}

func TestSlack(t *testing.T) {
	t.Parallel()
	address, got := slackServer(t)
	open := egress.New(egress.Options{Reach: egress.Reach{AllowHTTP: true, AnyPort: true, Allow: egress.PrivatePrefixes()}})
	guarded := egress.New(egress.Options{Reach: egress.Reach{AllowHTTP: true, AnyPort: true}})
	defer open.Close()
	defer guarded.Close()
	tenant := postrider.AccountID{1}
	for _, tt := range []struct {
		name    string
		door    *egress.Egress
		account postrider.AccountID
		path    string
		want    string
	}{
		{"a tenant's", open, tenant, "/ok", ""},
		{"a tenant's, to a private address", guarded, tenant, "/ok", "target_forbidden: url must have a public host (--egress-allow)"},
		{"a tenant's, with a redirect", open, tenant, "/moved", "http_status: 307"},
		{"the operator's, to a private address", guarded, postrider.AccountID{}, "/ok", ""},
		{"the operator's, with a redirect", guarded, postrider.AccountID{}, "/moved", "http_status: 307"},
		{"one that was removed", open, tenant, "/gone", "address_refused: HTTP 410"},
		{"one that fails", open, tenant, "/broken", "http_status: 500"},
	} {
		var failed string
		message := Message{To: postrider.Destination{Account: tt.account, Address: address + tt.path}, Slack: tt.name}
		Slack{Guarded: tt.door.Post, Operator: egress.PostAsOperator}.Send(t.Context(), []Message{message}, func(_ int, err error) {
			if err != nil {
				failed = err.Error()
			}
		})
		if failed != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, failed, tt.want)
		}
		if tt.want == "" {
			if text := <-got; text != tt.name {
				t.Errorf("%s: the server got %q", tt.name, text)
			}
		}
	}
	if len(got) > 0 {
		t.Errorf("the server got %q, too", <-got)
	}
}

func TestSlackErrorsHaveNoURL(t *testing.T) {
	t.Parallel()
	var failed error
	message := Message{To: postrider.Destination{Address: "http://127.0.0.1:1/secret"}}
	Slack{Operator: egress.PostAsOperator}.Send(t.Context(), []Message{message}, func(_ int, err error) { failed = err })
	if failed == nil || strings.Contains(failed.Error(), "secret") {
		t.Errorf("the error is %v", failed)
	}
}

func TestSlackTextHasNoMarkupOfOthers(t *testing.T) {
	t.Parallel()
	got := slackText(Layout{
		Brand: "Acme & Co", Title: "<!channel>", Lines: []Line{{Text: "<https://evil.example|click>", URL: "https://hooks.example/a"}},
		More: "and 1 more", Button: Link{"Open", "https://hooks.example/b"},
	})
	want := "*[Acme &amp; Co] &lt;!channel&gt;*\n•   <https://hooks.example/a|&lt;https://evil.example¦click&gt;>\nand 1 more\n<https://hooks.example/b|Open>"
	if got != want {
		t.Errorf("the text is\n%s\nwant\n%s", got, want)
	}
}

func TestAMailServerWithoutTLSGetsNoPassword(t *testing.T) {
	t.Parallel()
	server := (&testkit.MailServer{Insecure: true}).Start(t)
	var failed error
	e := Email{
		Address: server.Address, Security: StartTLS, TLS: &tls.Config{}, From: netmail.Address{Address: "hooks@acme.example"},
		User: testkit.MailUser, Password: func() (string, error) { return testkit.MailPassword, nil },
	}
	messages := []Message{{To: postrider.Destination{Address: "a@b.example"}}}
	e.Send(t.Context(), messages, func(_ int, err error) { failed = err })
	if failed == nil || !strings.Contains(failed.Error(), "STARTTLS") || server.Logins() != 0 || len(server.Emails()) != 0 {
		t.Errorf("the error is %v, after %d logins", failed, server.Logins())
	}
	e.Password = func() (string, error) { return "", errors.New("read password: no such file") }
	e.Send(t.Context(), messages, func(_ int, err error) { failed = err })
	if failed == nil || !strings.Contains(failed.Error(), "no such file") {
		t.Errorf("without a password, the error is %v", failed)
	}
}
