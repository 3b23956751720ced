package browser_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// mailbox is a mail server in a process of its own, with all emails that it took.
type mailbox struct {
	settings []string // of a server that sends its emails there

	mu     sync.Mutex
	emails []email
}

// email is an email as it arrived.
type email struct {
	To      string
	Header  http.Header
	Content string
}

// newMailbox starts a mail server. The test's end ends it.
func newMailbox(t *testing.T) *mailbox {
	t.Helper()
	program, err := buildMailbox()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(program)
	command.Stderr = os.Stderr
	order, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	said, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatalf("start the mail server: %v", err)
	}
	lines, reading := bufio.NewScanner(said), new(sync.WaitGroup)
	lines.Buffer(nil, 1<<20)
	t.Cleanup(func() {
		order.Close()
		reading.Wait()
		if err := command.Wait(); err != nil {
			t.Errorf("end the mail server: %v", err)
		}
	})
	var at struct{ Address, Authority, User, Password string }
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &at) != nil {
		t.Fatalf("the mail server says %q", lines.Bytes())
	}
	folder := t.TempDir()
	for name, text := range map[string]string{"authority.pem": at.Authority, "password": at.Password} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b := &mailbox{settings: []string{
		"--smtp-url=smtp://" + at.User + "@" + at.Address, "--smtp-from=Acme Webhooks <webhooks@acme.example>",
		"--smtp-password-file=" + filepath.Join(folder, "password"), "--smtp-ca-file=" + filepath.Join(folder, "authority.pem"),
	}}
	reading.Go(func() {
		for lines.Scan() {
			var e email
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				t.Errorf("the mail server says %q: %v", lines.Bytes(), err)
			}
			b.mu.Lock()
			b.emails = append(b.emails, e)
			b.mu.Unlock()
		}
	})
	return b
}

// buildMailbox builds the mail server and returns its path.
var buildMailbox = sync.OnceValues(func() (string, error) { return buildProgram("internal/testkit/mailbox") })

// arrived waits for the n-th email to an address.
func (b *mailbox) arrived(t *testing.T, to string, n int) email {
	t.Helper()
	var found []email
	eventually(t, func() string {
		b.mu.Lock()
		defer b.mu.Unlock()
		found = nil
		for _, e := range b.emails {
			if strings.EqualFold(e.To, to) {
				found = append(found, e)
			}
		}
		if len(found) < n {
			return "there are too few emails to " + to
		}
		return ""
	})
	return found[n-1]
}

// link returns the first URL of the email that has the path, in its text or its headers.
func (e email) link(t *testing.T, path string) string {
	t.Helper()
	text := strings.NewReplacer("=\r\n", "", "=3D", "=").Replace(e.Content)
	link := regexp.MustCompile(`http://[^\s<>"]+` + regexp.QuoteMeta(path) + `[\w-]+`).FindString(text)
	if link == "" {
		t.Fatalf("the email has no link to %s:\n%s", path, e.Content)
	}
	return link
}

// press sends the form of the page of a link, without a session, as mail programs do for their
// own button (RFC 8058).
func press(t *testing.T, link string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, link, strings.NewReader("List-Unsubscribe=One-Click"))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if status, text := send(t, request); status != http.StatusOK {
		t.Fatalf("POST %s = %d %s", link, status, text)
	}
}
