package app_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/testkit"
)

// mailed starts a server that sends through the mail server.
func mailed(t *testing.T, mail *testkit.MailServer) *running {
	t.Helper()
	dir := t.TempDir()
	authorities := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(authorities, mail.CA.PEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	return startWith(t, dir, map[string]string{
		"POSTRIDER_SMTP_URL": "smtp://" + testkit.MailUser + "@" + mail.Address, "POSTRIDER_SMTP_PASSWORD": testkit.MailPassword,
		"POSTRIDER_SMTP_CA_FILE": authorities, "POSTRIDER_SMTP_FROM": "Acme <hooks@acme.example>", "POSTRIDER_NOTICE_BRAND": "Acme",
	})
}

// linkIn returns the path of the first link in an email that begins with the path.
func linkIn(t *testing.T, e testkit.Email, prefix string) string {
	t.Helper()
	content := strings.NewReplacer("=\r\n", "", "=3D", "=").Replace(string(e.Content))
	link := regexp.MustCompile(regexp.QuoteMeta(prefix) + `[\w-]+`).FindString(content)
	if link == "" {
		t.Fatalf("the email has no link %s:\n%s", prefix, e.Content)
	}
	return link
}

func TestAnOwnerConfirmsAnAddressAndUnsubscribes(t *testing.T) {
	t.Parallel()
	mail := new(testkit.MailServer).Start(t)
	r := mailed(t, mail)
	if _, err := r.api.CreateAccount(t.Context(), apitypes.AccountCreate{UID: "shop", Name: "Shop"}); err != nil {
		t.Fatal(err)
	}
	d, err := r.api.CreateDestination(t.Context(), apitypes.DestinationCreate{
		Account: "shop", Channel: postrider.ChannelEmail,
		Address: "ann@shop.example",
	})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the confirmation", func() bool { return len(mail.Emails()) == 1 })
	confirm := linkIn(t, mail.Emails()[0], "/notices/confirm/")
	state := func() postrider.DestinationState {
		t.Helper()
		got, err := r.api.Destination(t.Context(), d.ID)
		if err != nil {
			t.Fatal(err)
		}
		return got.State
	}
	reader := newBrowser(t, r)
	for range 2 { // a mail scanner opens it first
		if status, _, text := reader.open(confirm, nil); status != http.StatusOK || !strings.Contains(text, "ann@shop.example") ||
			state() != postrider.DestinationWaiting {
			t.Fatalf("the link = %d, the destination is %s\n%s", status, state(), text)
		}
	}
	if status, _, _ := reader.open(confirm, url.Values{}); status != http.StatusOK || state() != postrider.DestinationActive {
		t.Fatalf("the button = %d, the destination is %s", status, state())
	}
	if status, _, _ := reader.open(confirm+"A", url.Values{}); status != http.StatusGone {
		t.Errorf("a link that was changed = %d, want 410", status)
	}
	if _, err := r.api.TestDestination(t.Context(), d.ID); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the test message", func() bool { return len(mail.Emails()) == 2 })
	if subject := mail.Emails()[1].Header.Get("Subject"); subject != "[Acme] Test message" {
		t.Errorf("the subject is %q", subject)
	}
	testkit.Eventually(t, "the record of the message", func() bool {
		got, err := r.api.Destination(t.Context(), d.ID)
		return err == nil && got.Asked == nil && got.LastSentAt != nil && got.LastError == nil
	})
}

// TestSlackGetsATestMessage sends to a webhook of an account, which in dev mode may be on this
// machine.
func TestSlackGetsATestMessage(t *testing.T) {
	t.Parallel()
	texts := make(chan string, 1)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var message struct{ Text string }
		body, err := io.ReadAll(r.Body)
		if err != nil || json.Unmarshal(body, &message) != nil {
			t.Errorf("the body is %q, %v", body, err)
		}
		texts <- message.Text
	}))
	defer hook.Close()
	r := start(t, t.TempDir())
	if _, err := r.api.CreateAccount(t.Context(), apitypes.AccountCreate{UID: "shop"}); err != nil {
		t.Fatal(err)
	}
	d, err := r.api.CreateDestination(t.Context(), apitypes.DestinationCreate{
		Account: "shop", Channel: postrider.ChannelSlack,
		Address: hook.URL + "/services/secret",
	})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(d.Address, "services") || d.State != postrider.DestinationActive {
		t.Errorf("the destination is %+v", d)
	}
	if _, err := r.api.TestDestination(t.Context(), d.ID); err != nil {
		t.Fatal(err)
	}
	if text := <-texts; !strings.HasPrefix(text, "*[Postrider] Test message*") {
		t.Errorf("the message is %q", text)
	}
}
