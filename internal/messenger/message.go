package messenger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

const (
	// maxLines is how many notices a message shows. It only counts the others.
	maxLines = 20
	// maxNotices is about how many notices are read for one message. The rest is left for the next
	// message. All notices of one millisecond are in one message, so a message may exceed the
	// limit.
	maxNotices = 20_000
	// maxSubject is the longest subject, in characters.
	maxSubject = 150
	// confirmTime is how long the link of a confirmation works.
	confirmTime = 7 * 24 * time.Hour
)

// Message is a message to one destination.
type Message struct {
	To      postrider.Destination
	ID      string // a repeated message has the same id; it contains no address
	Subject string // one line
	Text    string
	HTML    string
	Slack   string // in Slack's markup language
	// Unsubscribe is the URL that ends such messages by one POST (RFC 8058). Empty: the destination
	// is an operator's, which operators manage themselves.
	Unsubscribe string

	told    postrider.NoticeID // ToldUntil of the destination after this message; zero: no change
	notices int
}

// Layout has the parts of a message for the templates, in the language of the destination.
type Layout struct {
	Language, Brand, Title string
	Paragraphs             []string
	Lines                  []Line
	More                   string // how many notices have no line, as a text; empty: none
	Button                 Link   // without a URL: no button
	Footer                 []Link // a link without a URL is shown as text
}

// Line is the line of one notice.
type Line struct{ At, Text, URL string }

// Link is a text with a URL.
type Link struct{ Text, URL string }

// compose makes the message that a destination needs, within composeTime. If the message has no
// subject, it need not be sent: the destination wants none of the notices.
//
// The text of an error is a [postrider.Failure] that the readers of the destination may see. The
// cause is only logged.
func (m *Messenger) compose(ctx context.Context, d postrider.Destination) (Message, error) {
	within, cancel := context.WithTimeout(ctx, composeTime)
	defer cancel()
	message, err := m.composeFor(within, d)
	if err != nil && ctx.Err() == nil {
		m.opts.Log.WarnContext(ctx, "message not made", "destination", d, "ask", string(d.Ask), "error", err)
		err = errNotMade
	}
	return message, err
}

// errNotMade says that a message could not be made: the store did not respond, or the links or the
// template of the message do not work.
var errNotMade = errors.New(string(postrider.FailureInternal))

// composeFor does the work of compose, without the deadline.
func (m *Messenger) composeFor(ctx context.Context, d postrider.Destination) (Message, error) {
	w := wordsOf(d.Language)
	switch {
	case d.Ask == postrider.AskConfirmation:
		return m.composeConfirmation(ctx, d, w)
	case d.ConfirmedAt.IsZero():
		return Message{To: d}, nil
	case d.Ask == postrider.AskTest:
		return m.endable(ctx, Message{To: d, ID: m.askID(d)}, Layout{
			Title: w.get("test.title"), Paragraphs: []string{w.get("test.text", "brand", m.opts.Brand)}, Button: m.noticesLink(d, w),
		}, nil)
	}
	return m.composeNotices(ctx, d, w)
}

// askID returns the id of a message that a person asked for. A later request gets another id.
func (m *Messenger) askID(d postrider.Destination) string {
	return fmt.Sprintf("%s.%s.%d", d.ID, d.Ask, m.Store.Clock().Wall().Unix())
}

// composeConfirmation makes the message that asks the reader to confirm the destination.
func (m *Messenger) composeConfirmation(ctx context.Context, d postrider.Destination, w words) (Message, error) {
	to, err := m.link(ctx, postrider.DestinationLink{
		Destination: d.ID, Action: postrider.LinkConfirm, ExpiresAt: m.Store.Clock().Wall().Add(confirmTime),
	})
	if err != nil {
		return Message{}, err
	}
	who, err := m.accountName(ctx, d.Account)
	if err != nil {
		return Message{}, err
	}
	text := w.get("confirm.text", "brand", m.opts.Brand, "account", who)
	if d.Account.IsZero() {
		text = w.get("confirm.text_operator", "brand", m.opts.Brand)
	}
	return m.finish(Message{To: d, ID: m.askID(d)}, Layout{
		Title: w.get("confirm.title"), Paragraphs: []string{text, w.get("confirm.ignore")},
		Button: Link{w.get("confirm.button"), to},
	})
}

// link returns the URL of a page that works without a login.
func (m *Messenger) link(ctx context.Context, l postrider.DestinationLink) (string, error) {
	if m.opts.PublicURL == "" {
		return "", fmt.Errorf("make a link: %w", errNoPublicURL)
	}
	token, err := m.Signer.Sign(ctx, l.Encode())
	if err != nil {
		return "", err
	}
	return m.opts.PublicURL + "/notices/" + string(l.Action) + "/" + token, nil
}

// errNoPublicURL says that a message needs links but the server does not know its public URL.
var errNoPublicURL = errors.New("the server's public URL is not set")

// untold has the notices of a message.
type untold struct {
	// lines has the first notices that the destination wants, at most maxLines.
	lines  []postrider.Notice
	counts map[postrider.NoticeKind]int // how many notices of each kind the destination wants
	all    int
	until  postrider.NoticeID // the destination knows all notices with lower ids after this message
}

// untold reads the notices that the destination was not told yet. It leaves notices younger than
// NoticeDelay for the next message, because a notice with a lower id may be committed later. It
// also leaves the notices after the first maxNotices.
func (m *Messenger) untold(ctx context.Context, d postrider.Destination) (untold, error) {
	u := untold{counts: map[postrider.NoticeKind]int{}, until: store.FirstNotice(m.Store.Clock().Wall().Add(-postrider.NoticeDelay))}
	q := store.NoticeQuery{
		Account: d.Account, Span: store.Span{From: d.ToldUntil.Time(), To: u.until.Time()},
		Paging: store.Paging{Limit: store.MaxLimit, OldestFirst: true},
	}
	var read int
	var last time.Time
	for {
		page, err := m.Store.Notices(ctx, q)
		if err != nil {
			return u, err
		}
		for _, n := range page.Items {
			if read >= maxNotices && n.ID.Time().After(last) {
				u.until = store.FirstNotice(n.ID.Time())
				return u, nil
			}
			read, last = read+1, n.ID.Time()
			if !d.Wants(n.Kind) {
				continue
			}
			u.all++
			u.counts[n.Kind]++
			if len(u.lines) < maxLines {
				u.lines = append(u.lines, n)
			}
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return u, nil
		}
	}
}

// composeNotices makes one message of all notices that the destination was not told yet.
func (m *Messenger) composeNotices(ctx context.Context, d postrider.Destination, w words) (Message, error) {
	u, err := m.untold(ctx, d)
	if err != nil || u.all == 0 {
		return Message{To: d, told: u.until}, err
	}
	message := Message{To: d, ID: d.ID.String() + "." + d.ToldUntil.String(), told: u.until, notices: u.all}
	l := Layout{Button: m.noticesLink(d, w)}
	names := map[string]string{}
	for _, n := range u.lines {
		line, err := m.line(ctx, d, n, names)
		if err != nil {
			return Message{}, err
		}
		l.Lines = append(l.Lines, line)
	}
	var kinds []string
	for _, kind := range u.kinds() {
		kinds = append(kinds, w.get("count", "kind", w.get("kind."+string(kind)), "n", w.number(u.counts[kind])))
	}
	l.Title = l.Lines[0].Text
	if u.all > 1 {
		l.Title = w.get("notices.title", "n", w.number(u.all), "kinds", strings.Join(kinds, ", "))
	}
	if more := u.all - len(l.Lines); more > 0 {
		l.More = w.get("notices.more", "n", w.number(more))
	}
	return m.endable(ctx, message, l, u.kinds())
}

// endable renders a message with links to unsubscribe: one for each kind of its notices, and one
// for all kinds.
func (m *Messenger) endable(ctx context.Context, message Message, l Layout, kinds []postrider.NoticeKind) (_ Message, err error) {
	if l.Footer, err = m.footer(ctx, message.To, kinds); err != nil {
		return Message{}, err
	}
	if len(l.Footer) > 0 {
		message.Unsubscribe = l.Footer[0].URL
	}
	return m.finish(message, l)
}

// kinds returns the kinds of the notices, the most frequent first.
func (u untold) kinds() []postrider.NoticeKind {
	var kinds []postrider.NoticeKind
	for _, kind := range postrider.NoticeKinds {
		if u.counts[kind] > 0 {
			kinds = append(kinds, kind)
		}
	}
	slices.SortStableFunc(kinds, func(a, b postrider.NoticeKind) int { return u.counts[b] - u.counts[a] })
	return kinds
}

// footer returns the links to unsubscribe. The mail program's own button uses the first link. That
// link ends the kind of the message, or all kinds if the message has several. An operator's
// destination has no links, and a webhook has none: both are changed by the API.
func (m *Messenger) footer(ctx context.Context, d postrider.Destination, kinds []postrider.NoticeKind) ([]Link, error) {
	if d.Account.IsZero() || d.Channel != postrider.ChannelEmail {
		return nil, nil
	}
	if len(kinds) > 1 {
		kinds = append([]postrider.NoticeKind{postrider.AllKinds}, kinds...)
	} else {
		kinds = append(slices.Clone(kinds), postrider.AllKinds)
	}
	w := wordsOf(d.Language)
	var links []Link
	for _, kind := range kinds {
		to, err := m.link(ctx, postrider.DestinationLink{Destination: d.ID, Action: postrider.LinkUnsubscribe, Kind: kind})
		if err != nil {
			return nil, err
		}
		text := w.get("unsubscribe.all")
		if kind != postrider.AllKinds {
			text = w.get("unsubscribe.kind", "kind", w.get("kind."+string(kind)))
		}
		links = append(links, Link{text, to})
	}
	return links, nil
}

// noticesLink returns the link to the page of notices; the zero Link if the URL of that page is
// unknown.
func (m *Messenger) noticesLink(d postrider.Destination, w words) Link {
	to := m.page(d, "notices")
	if to == "" {
		return Link{}
	}
	return Link{w.get("notices.open"), to}
}

// page returns the URL at which the readers of the destination, operators or customers, find a
// page. It returns "" if the URL is unknown.
func (m *Messenger) page(d postrider.Destination, path string) string {
	if login, err := url.Parse(m.opts.PortalLoginURL); err == nil && login.Host != "" && !d.Account.IsZero() {
		query := login.Query()
		query.Set("portal_page", "/portal/"+path)
		login.RawQuery = query.Encode()
		return login.String()
	}
	switch {
	case m.opts.PublicURL == "":
		return ""
	case d.Account.IsZero():
		return m.opts.PublicURL + "/dashboard/" + path
	}
	return m.opts.PublicURL + "/portal/" + path
}

// line returns the line of a notice. names caches the names of accounts and endpoints for this
// message.
func (m *Messenger) line(ctx context.Context, d postrider.Destination, n postrider.Notice, names map[string]string) (Line, error) {
	w := wordsOf(d.Language)
	args := []string{"object", n.Object}
	for name, detail := range n.Details {
		args = append(args, name, w.detail(name, detail))
	}
	line := Line{At: n.ID.Time().UTC().Format("2006-01-02 15:04 UTC")}
	if endpoint, err := postrider.ParseID[postrider.EndpointID](n.Object); err == nil {
		if _, known := names[n.Object]; !known {
			if names[n.Object], err = m.endpointName(ctx, endpoint); err != nil {
				return line, err
			}
		}
		args[1] = names[n.Object]
		line.URL = m.page(d, "endpoints/"+n.Object)
	} else if _, err := postrider.ParseID[postrider.ReplayID](n.Object); err == nil {
		line.URL = m.page(d, "replays/"+n.Object)
	} else if _, err := postrider.ParseID[postrider.AccountID](n.Object); err == nil && d.Account.IsZero() {
		line.URL = m.page(d, "accounts/"+n.Object)
	}
	line.Text = oneLine(w.get("notice."+string(n.Kind), args...))
	if d.Account.IsZero() && !n.Account.IsZero() {
		account := n.Account.String()
		if _, known := names[account]; !known {
			var err error
			if names[account], err = m.accountName(ctx, n.Account); err != nil {
				return line, err
			}
		}
		line.Text = oneLine(names[account]) + ": " + line.Text
	}
	return line, nil
}

// endpointName returns the name of an endpoint for people: its description, the host and path of
// its URL, or its id.
func (m *Messenger) endpointName(ctx context.Context, id postrider.EndpointID) (string, error) {
	page, err := m.Store.Endpoints(ctx, store.EndpointQuery{ID: id})
	if err != nil || len(page.Items) == 0 {
		return id.String(), err
	}
	e := page.Items[0]
	if at, err := url.Parse(e.URL); e.Description == "" && err == nil && at.Host != "" {
		return at.Host + at.EscapedPath(), nil // without the query, which may contain credentials
	}
	if e.Description != "" {
		return e.Description, nil
	}
	return id.String(), nil
}

// accountName returns the name of an account for people: its name, its uid or its id.
func (m *Messenger) accountName(ctx context.Context, id postrider.AccountID) (string, error) {
	if id.IsZero() {
		return "", nil
	}
	page, err := m.Store.Accounts(ctx, store.AccountQuery{ID: id})
	if err != nil || len(page.Items) == 0 {
		return id.String(), err
	}
	if a := page.Items[0]; a.Name != "" || a.UID != "" {
		return cmp.Or(a.Name, a.UID), nil
	}
	return id.String(), nil
}

// finish renders the message.
func (m *Messenger) finish(message Message, l Layout) (Message, error) {
	l.Language, l.Brand = wordsOf(message.To.Language).language, m.opts.Brand
	message.Subject = shorten(oneLine("["+l.Brand+"] "+l.Title), maxSubject)
	message.Slack = slackText(l)
	var err error
	message.Text, message.HTML, err = m.opts.Templates.render(l)
	return message, err
}

// oneLine returns the text in one line: spaces, control characters and other invisible characters
// become one space. Otherwise a text could add a second line to a header.
func oneLine(text string) string {
	return strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "\uFFFD"), func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	}), " ")
}

// shorten returns the text with at most `most` characters; if it cuts the text, the last one is an
// ellipsis.
func shorten(text string, most int) string {
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	return string(runes[:most-1]) + "…"
}
