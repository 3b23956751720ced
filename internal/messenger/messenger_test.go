package messenger_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	netmail "net/mail"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/messenger"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/secrets"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/memory"
	"github.com/postrider/postrider/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// world is a store with a clock that the test moves, and the parts that send its messages.
type world struct {
	*testing.T
	*memory.Store

	messages messenger.Store   // the store of a messenger; by default Store
	opts     messenger.Options // of each messenger, except for Hooks
	ids      *store.IDs
	vault    *secrets.Vault
	clock    atomic.Int64 // microseconds

	mu      sync.Mutex
	results map[string]int // messages by channel and result
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, results: map[string]int{}}
	w.clock.Store(time.Date(2026, 11, 2, 8, 0, 0, 0, time.UTC).UnixMicro())
	w.Store = memory.New(memory.Options{Now: w.now})
	w.messages = w.Store
	w.opts = messenger.Options{Brand: "Acme", PublicURL: "https://hooks.acme.example"}
	w.ids = store.NewIDs(w.now, nil)
	keyring, err := secrets.NewKeyring(strings.NewReader(strings.Repeat("k", 40)))
	if err != nil {
		t.Fatal(err)
	}
	w.vault = secrets.New(keyring)
	return w
}

func (w *world) now() time.Time { return time.UnixMicro(w.clock.Load()).UTC() }

// later moves the clock on.
func (w *world) later(d time.Duration) { w.clock.Add(d.Microseconds()) }

// account stores an account with the name.
func (w *world) account(name string) postrider.AccountID {
	w.Helper()
	a := postrider.Account{ID: store.NewID[postrider.AccountID](w.ids), Name: name}
	if err := w.PutAccount(w.Context(), a); err != nil {
		w.Fatal(err)
	}
	return a.ID
}

// put stores a destination; one with a ConfirmedAt is confirmed from now on.
func (w *world) put(d postrider.Destination) postrider.DestinationID {
	w.Helper()
	d.ID = store.NewID[postrider.DestinationID](w.ids)
	if d.Channel == "" {
		d.Channel = postrider.ChannelEmail
	}
	if err := w.PutDestination(w.Context(), d, 1_000_000); err != nil {
		w.Fatal(err)
	}
	return d.ID
}

// confirmed marks a destination that put confirms; the store sets the time.
var confirmed = time.Unix(1, 0)

// notice stores a notice of a kind about an endpoint.
func (w *world) notice(account postrider.AccountID, kind postrider.NoticeKind) {
	w.Helper()
	id := store.NewID[postrider.NoticeID](w.ids)
	endpoint := store.NewID[postrider.EndpointID](w.ids).String()
	_, err := w.PutNotices(w.Context(), []postrider.Notice{{
		ID: id, Account: account, Kind: kind, Object: endpoint, Details: map[string]string{"reason": "failing"},
	}})
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) destination(id postrider.DestinationID) postrider.Destination {
	w.Helper()
	page, err := w.Destinations(w.Context(), store.DestinationQuery{ID: id})
	if err != nil || len(page.Items) != 1 {
		w.Fatalf("destination %s: %v, %v", id, page.Items, err)
	}
	return page.Items[0]
}

// email returns the channel to a mail server.
func email(s *testkit.MailServer) messenger.Email {
	e := messenger.Email{
		Address: s.Address, User: testkit.MailUser, Password: func() (string, error) { return testkit.MailPassword, nil },
		Security: messenger.StartTLS, TLS: &tls.Config{RootCAs: s.CA.Pool, ServerName: "127.0.0.1"},
		From: netmail.Address{Name: "Acme Hooks", Address: "hooks@acme.example"},
	}
	if s.Implicit {
		e.Security = messenger.Implicit
	}
	return e
}

// run runs a messenger until the condition holds.
func (w *world) run(channels map[postrider.Channel]messenger.Channel, until func() bool) {
	w.Helper()
	opts := w.opts
	opts.Hooks = observe.Hooks{MessageDone: func(d observe.MessageDone) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.results[string(d.Channel)+" "+d.Result]++
	}}
	m := messenger.New(messenger.Deps{Store: w.messages, Signer: w.vault, Channels: channels}, opts)
	ctx, stop := context.WithCancel(w.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := m.Run(ctx); err != nil {
			w.Errorf("Run = %v", err)
		}
	})
	testkit.Eventually(w, "messages", until)
	stop()
	running.Wait()
}

// mail runs a messenger with the mail server.
func (w *world) mail(s *testkit.MailServer, until func() bool) {
	w.Helper()
	w.run(map[postrider.Channel]messenger.Channel{postrider.ChannelEmail: email(s)}, until)
}

// result returns how many messages had the channel and result of the name.
func (w *world) result(name string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.results[name]
}

func TestTenThousandEndpointsFailAtOnce(t *testing.T) {
	t.Parallel()
	const owners, endpoints = 100, 100
	w, server := newWorld(t), new(testkit.MailServer).Start(t)
	operator := w.put(postrider.Destination{Address: "ops@acme.example", Language: "en", ConfirmedAt: confirmed})
	var accounts []postrider.AccountID
	for i := range owners {
		account := w.account(fmt.Sprintf("Customer %d", i))
		w.put(postrider.Destination{
			Account: account, Address: fmt.Sprintf("owner%d@customer.example", i), Language: "de",
			ConfirmedAt: confirmed,
		})
		accounts = append(accounts, account)
	}
	w.later(time.Second)
	for range endpoints {
		for _, account := range accounts {
			w.notice(account, postrider.NoticeFailing)
		}
	}
	w.later(time.Minute + time.Second)
	w.mail(server, func() bool { return w.result("email sent") == owners+1 })

	got := map[string]string{}
	for _, e := range server.Emails() {
		if _, twice := got[e.To]; twice {
			t.Errorf("%s got a second email", e.To)
		}
		got[e.To] = e.Header.Get("Subject")
	}
	if len(got) != owners+1 {
		t.Errorf("%d addresses got an email, want %d", len(got), owners+1)
	}
	if want := "[Acme] 10,000 notices: endpoint fails (10,000)"; got["ops@acme.example"] != want {
		t.Errorf("the operator got %q, want %q", got["ops@acme.example"], want)
	}
	if first := server.Emails()[0]; first.To != "ops@acme.example" || !strings.Contains(string(first.Content), "and 9,980 more") {
		t.Errorf("the first email went to %s:\n%s", first.To, first.Content)
	}
	if d := w.destination(operator); d.LastError != "" || d.LastSentAt.IsZero() {
		t.Errorf("the operator's destination is %+v", d)
	}
	// Nothing is left to tell, and the next notice waits for the interval.
	w.notice(accounts[0], postrider.NoticeDisabled)
	w.later(2 * time.Minute)
	claimed, err := w.ClaimDestinations(t.Context(),
		store.ClaimDestinations{Channel: postrider.ChannelEmail, Max: 10, Lease: time.Minute, Token: 1})
	if err != nil || len(claimed) != 0 {
		t.Errorf("two minutes later %d destinations need a message, %v", len(claimed), err)
	}
	w.later(8 * time.Minute)
	w.mail(server, func() bool { return w.result("email sent") == owners+3 }) // the operator and one owner
}

func TestEmailsAreSentByEachKindOfConnection(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		server *testkit.MailServer
	}{
		{"STARTTLS and PLAIN", &testkit.MailServer{}},
		{"STARTTLS and LOGIN", &testkit.MailServer{Mechanisms: []string{"LOGIN"}}},
		{"TLS and PLAIN", &testkit.MailServer{Implicit: true}},
		{"TLS and LOGIN", &testkit.MailServer{Implicit: true, Mechanisms: []string{"LOGIN"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, server := newWorld(t), tt.server.Start(t)
			w.put(postrider.Destination{
				Account: w.account("Zoë's Shop"), Address: "ann@shop.example", Language: "en",
				Ask: postrider.AskConfirmation,
			})
			w.mail(server, func() bool { return w.result("email sent") == 1 })
			e := server.Emails()[0]
			if e.To != "ann@shop.example" || e.Header.Get("From") != `"Acme Hooks" <hooks@acme.example>` ||
				e.Header.Get("To") != "<ann@shop.example>" {
				t.Errorf("the email is from %q to %q, %q", e.Header.Get("From"), e.Header.Get("To"), e.To)
			}
			if e.Header.Get("Auto-Submitted") != "auto-generated" || !strings.HasSuffix(e.Header.Get("Message-Id"), "@acme.example>") {
				t.Errorf("the header is %v", e.Header)
			}
		})
	}
}

func TestAnUnconfirmedAddressGetsTheConfirmationAlone(t *testing.T) {
	t.Parallel()
	w, server := newWorld(t), new(testkit.MailServer).Start(t)
	account := w.account("Acme")
	id := w.put(postrider.Destination{Account: account, Address: "ann@acme.example", Language: "en", Ask: postrider.AskConfirmation})
	other := w.put(postrider.Destination{Account: account, Address: "bob@acme.example", Language: "en", ConfirmedAt: confirmed})
	w.later(time.Second)
	w.notice(account, postrider.NoticeDisabled)
	w.later(time.Hour)
	w.mail(server, func() bool { return w.result("email sent") == 2 })
	for _, e := range server.Emails() {
		if confirmation := strings.Contains(e.Header.Get("Subject"), "confirm"); confirmation != (e.To == "ann@acme.example") {
			t.Errorf("%s got %q", e.To, e.Header.Get("Subject"))
		}
	}
	if d := w.destination(id); d.State() != postrider.DestinationWaiting || d.Ask != "" {
		t.Errorf("the destination is %+v", d)
	}
	link := w.linkOf(server, "ann@acme.example", "https://hooks.acme.example/notices/confirm/")
	if link.Destination != id || link.Action != postrider.LinkConfirm || !link.ExpiresAt.Equal(w.now().Add(7*24*time.Hour)) {
		t.Errorf("the link is %+v", link)
	}
	// After the confirmation, older notices are still not told.
	if _, err := w.ChangeDestination(t.Context(), store.ChangeDestination{ID: id, Confirm: true}); err != nil {
		t.Fatal(err)
	}
	w.later(time.Second)
	w.notice(account, postrider.NoticeRecovered)
	w.later(time.Hour)
	w.mail(server, func() bool { return w.result("email sent") == 4 })
	for _, e := range server.Emails()[2:] {
		if !strings.Contains(e.Header.Get("Subject"), "works again") {
			t.Errorf("%s got %q", e.To, e.Header.Get("Subject"))
		}
	}
	if got := w.destination(other).LastError; got != "" {
		t.Errorf("the other destination failed: %s", got)
	}
}

// linkOf returns the link in the last email to the address.
func (w *world) linkOf(server *testkit.MailServer, to, prefix string) postrider.DestinationLink {
	w.Helper()
	var link postrider.DestinationLink
	for _, e := range server.Emails() {
		content := strings.ReplaceAll(strings.ReplaceAll(string(e.Content), "=\r\n", ""), "=3D", "=")
		_, rest, found := strings.Cut(content, prefix)
		if e.To != to || !found {
			continue
		}
		token := rest[:strings.IndexAny(rest, "> \r\n\"")]
		payload, err := w.vault.Unsign(token)
		if err != nil {
			w.Fatalf("the token %q: %v", token, err)
		}
		var ok bool
		if link, ok = postrider.DecodeDestinationLink(payload); !ok {
			w.Fatalf("the payload %q is no link", payload)
		}
	}
	return link
}

func TestUnsubscribing(t *testing.T) {
	t.Parallel()
	w, server := newWorld(t), new(testkit.MailServer).Start(t)
	account := w.account("Acme")
	id := w.put(postrider.Destination{Account: account, Address: "ann@acme.example", Language: "en", ConfirmedAt: confirmed})
	w.put(postrider.Destination{Address: "ops@acme.example", Language: "en", ConfirmedAt: confirmed})
	w.later(time.Second)
	w.notice(account, postrider.NoticeDisabled)
	w.later(time.Hour)
	w.mail(server, func() bool { return w.result("email sent") == 2 })
	for _, e := range server.Emails() {
		list, post := e.Header.Get("List-Unsubscribe"), e.Header.Get("List-Unsubscribe-Post")
		if e.To == "ops@acme.example" {
			if list != "" || post != "" || strings.Contains(string(e.Content), "unsubscribe/") {
				t.Errorf("the operator's email has %q, %q:\n%s", list, post, e.Content)
			}
			continue
		}
		if !strings.HasPrefix(list, "<https://hooks.acme.example/notices/unsubscribe/") || post != "List-Unsubscribe=One-Click" {
			t.Errorf("the headers are %q, %q", list, post)
		}
	}
	link := w.linkOf(server, "ann@acme.example", "<https://hooks.acme.example/notices/unsubscribe/")
	if want := (postrider.DestinationLink{Destination: id, Action: postrider.LinkUnsubscribe, Kind: postrider.NoticeDisabled}); link != want {
		t.Errorf("the link is %+v, want %+v", link, want)
	}
	if _, err := w.ChangeDestination(t.Context(), store.ChangeDestination{ID: id, Unsubscribe: link.Kind}); err != nil {
		t.Fatal(err)
	}
	// A notice of a kind that nobody wants makes no message. Other kinds still do.
	w.notice(account, postrider.NoticeDisabled)
	w.later(time.Hour)
	w.mail(server, func() bool {
		return w.result("email sent") == 3 && w.destination(id).ToldUntil.Compare(store.FirstNotice(w.now().Add(-time.Minute))) > 0
	})
	w.notice(account, postrider.NoticeDisabled)
	w.notice(account, postrider.NoticeRecovered)
	w.later(time.Hour)
	w.mail(server, func() bool { return w.result("email sent") == 5 })
	for _, e := range server.Emails()[2:] {
		if e.To == "ann@acme.example" && !strings.Contains(e.Header.Get("Subject"), "works again") {
			t.Errorf("after unsubscribing, the subject is %q", e.Header.Get("Subject"))
		}
	}
}

func TestAnAddressThatIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	server := (&testkit.MailServer{Refuse: func(to string) error {
		switch to {
		case "gone@acme.example":
			return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "no such user: gone@acme.example"}
		case "full@acme.example":
			return &smtp.SMTPError{Code: 452, EnhancedCode: smtp.EnhancedCode{4, 2, 2}, Message: "mailbox full"}
		}
		return nil
	}}).Start(t)
	account := w.account("Acme")
	var ids []postrider.DestinationID
	for _, address := range []string{"gone@acme.example", "full@acme.example", "fine@acme.example"} {
		ids = append(ids,
			w.put(postrider.Destination{Account: account, Address: address, Language: "en", ConfirmedAt: confirmed, Ask: postrider.AskTest}))
	}
	w.mail(server, func() bool { return w.result("email sent")+w.result("email failed")+w.result("email refused") == 3 })
	for i, want := range []struct {
		state    postrider.DestinationState
		ask      postrider.Ask
		failures int
		err      string
	}{
		{postrider.DestinationRefused, "", 1, "address_refused: 550 5.1.1"},
		{postrider.DestinationActive, postrider.AskTest, 1, "mail_rejected: 452 4.2.2: sending SMTP RCPT TO command"},
		{postrider.DestinationActive, "", 0, ""},
	} {
		if d := w.destination(ids[i]); d.State() != want.state || d.Ask != want.ask || d.Failures != want.failures || d.LastError != want.err {
			t.Errorf("destination %d is %s, %q, %d failures, %q, want %+v", i, d.State(), d.Ask, d.Failures, d.LastError, want)
		}
	}
	w.later(time.Minute)
	w.mail(server, func() bool { return w.result("email failed") == 2 })
	if n := w.result("email refused"); n != 1 {
		t.Errorf("the address was refused %d times, want once", n)
	}
	if len(server.Emails()) != 1 {
		t.Errorf("%d emails were taken, want 1", len(server.Emails()))
	}
}

func TestAMailServerThatHangs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var listen net.ListenConfig
	// The system accepts connections, but nobody answers.
	silent, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	slow := email(new(testkit.MailServer).Start(t))
	slow.Address, slow.Timeout = silent.Addr().String(), 100*time.Millisecond
	hook := new(recorder)
	account := w.account("Acme")
	id := w.put(postrider.Destination{Account: account, Address: "ann@acme.example", Language: "en", ConfirmedAt: confirmed})
	w.put(postrider.Destination{Channel: postrider.ChannelSlack, Address: "https://hooks.example/x", Language: "en", ConfirmedAt: confirmed})
	w.later(time.Second)
	w.notice(account, postrider.NoticeDisabled)
	w.later(time.Hour)
	w.run(map[postrider.Channel]messenger.Channel{postrider.ChannelEmail: slow, postrider.ChannelSlack: hook}, func() bool {
		return w.result("email failed") == 1 && w.result("slack sent") == 1
	})
	d := w.destination(id)
	if d.Failures != 1 || !strings.HasPrefix(d.LastError, "mail_server: ") || strings.Contains(d.LastError, "ann@") {
		t.Errorf("the destination has %d failures: %q", d.Failures, d.LastError)
	}
	// It is tried again after one minute, then two, and in the end it arrives exactly once.
	for _, wait := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute} {
		failed := w.result("email failed")
		w.later(wait - time.Second)
		claimed, err := w.ClaimDestinations(t.Context(),
			store.ClaimDestinations{Channel: postrider.ChannelEmail, Max: 1, Lease: time.Minute, Token: 1})
		if err != nil || len(claimed) != 0 {
			t.Errorf("a second before %v it is tried again: %v", wait, err)
		}
		w.later(time.Second)
		w.run(map[postrider.Channel]messenger.Channel{postrider.ChannelEmail: slow}, func() bool { return w.result("email failed") == failed+1 })
	}
	w.later(time.Hour)
	server := new(testkit.MailServer).Start(t)
	w.mail(server, func() bool { return w.result("email sent") == 1 })
	if got := len(server.Emails()); got != 1 || w.destination(id).Failures != 0 {
		t.Errorf("%d emails arrived, and %+v", got, w.destination(id))
	}
}

func TestStoppingWaitsForNoMailServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var listen net.ListenConfig
	silent, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	accepted := make(chan struct{})
	var accepting sync.WaitGroup
	accepting.Go(func() {
		c, err := silent.Accept()
		if err != nil {
			t.Errorf("accept: %v", err)
			return
		}
		close(accepted)
		defer c.Close()
		buffer := make([]byte, 1)
		_, _ = c.Read(buffer) // until the messenger closes the connection
	})
	slow := email(new(testkit.MailServer).Start(t))
	slow.Address, slow.Timeout = silent.Addr().String(), testkit.Patience
	w.put(postrider.Destination{Address: "ops@acme.example", Language: "en", ConfirmedAt: confirmed, Ask: postrider.AskTest})
	begun := time.Now()
	w.run(map[postrider.Channel]messenger.Channel{postrider.ChannelEmail: slow}, func() bool {
		select {
		case <-accepted:
			return true
		default:
			return false
		}
	})
	accepting.Wait()
	if took := time.Since(begun); took > testkit.Patience/2 {
		t.Errorf("stopping took %v", took)
	}
}

// recorder is a channel that accepts every message.
type recorder struct {
	mu       sync.Mutex
	messages []messenger.Message
	fail     error
}

// Send implements [messenger.Channel].
func (r *recorder) Send(_ context.Context, messages []messenger.Message, done func(int, error)) {
	for i, m := range messages {
		r.mu.Lock()
		r.messages = append(r.messages, m)
		err := r.fail
		r.mu.Unlock()
		done(i, err)
	}
}

func (r *recorder) all() []messenger.Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]messenger.Message{}, r.messages...)
}

func TestAMessageIsRepeatedUnderTheSameID(t *testing.T) {
	t.Parallel()
	w, hook := newWorld(t), &recorder{fail: errors.New("cut off after the data")}
	account := w.account("Acme")
	w.put(postrider.Destination{Account: account, Address: "ann@acme.example", Language: "en", ConfirmedAt: confirmed})
	w.later(time.Second)
	w.notice(account, postrider.NoticeDisabled)
	for range 2 {
		w.later(time.Hour)
		n := len(hook.all())
		w.run(map[postrider.Channel]messenger.Channel{postrider.ChannelEmail: hook}, func() bool { return len(hook.all()) == n+1 })
	}
	if all := hook.all(); all[0].ID != all[1].ID {
		t.Errorf("the ids are %q and %q", all[0].ID, all[1].ID)
	}
}
