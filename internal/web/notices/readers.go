package notices

import (
	"context"
	"errors"
	"net/http"
	"net/netip"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/web/page"
)

// Readers carries out the links in emails. The readers of emails have no session.
//
// If a link does not work, or no longer works, the error matches postrider.ErrNotFound.
type Readers interface {
	// Find returns the reader of a link. It changes nothing.
	Find(ctx context.Context, action postrider.LinkAction, text string) (Reader, error)
	// Follow carries out the link. Repeated, it changes nothing more.
	Follow(ctx context.Context, action postrider.LinkAction, text string, from netip.Addr) error
}

// Reader is the reader to whom a link in an email was sent.
type Reader struct {
	Address  string
	Kind     postrider.NoticeKind // the kind that the link unsubscribes from; [postrider.AllKinds]: all
	Language string               // of the email
	Operator bool                 // the address is one of the operator's
}

// linkRoutes lists the pages of the links in emails. A GET changes nothing, because mail scanners
// open links; a POST carries the link out. A POST to unsubscribe may come from the reader's mail
// provider (RFC 8058), without a session, a cookie or an Origin.
func linkRoutes(from Readers) page.Routes {
	routes := page.Routes{}
	for _, action := range []postrider.LinkAction{postrider.LinkConfirm, postrider.LinkUnsubscribe} {
		l, path := link{from, action}, " /notices/"+string(action)+"/{text}"
		routes["GET"+path], routes["POST"+path] = l.ask, l.follow
	}
	return routes
}

// link is a kind of link in emails.
type link struct {
	readers Readers
	action  postrider.LinkAction
}

// readerPage is the data of the pages of links.
type readerPage struct {
	Reader

	Action postrider.LinkAction
	All    bool   // the link is about all kinds of notices
	Path   string // of this page
	Done   bool
}

// find returns the data of the link's page. It sets the language of the email for the visit.
func (l link) find(v *page.Visit) (readerPage, error) {
	r, err := l.readers.Find(v.Context, l.action, v.Request.PathValue("text"))
	if err != nil {
		return readerPage{}, err
	}
	v.Portal = !r.Operator
	v.Speak(r.Language)
	return readerPage{Reader: r, Action: l.action, All: r.Kind == postrider.AllKinds, Path: v.Request.URL.Path}, nil
}

// ask shows a button that carries the link out.
func (l link) ask(v *page.Visit) error {
	p, err := l.find(v)
	if err != nil {
		return refuseReader(v, err)
	}
	return v.Show(page.View{Name: "reader", Data: p})
}

// follow carries the link out.
func (l link) follow(v *page.Visit) error {
	p, err := l.find(v)
	if err == nil {
		err = l.readers.Follow(v.Context, l.action, v.Request.PathValue("text"), v.Remote())
	}
	if err != nil {
		return refuseReader(v, err)
	}
	p.Done = true
	return v.Show(page.View{Name: "reader", Data: p})
}

// refuseReader shows that a link does not work.
func refuseReader(v *page.Visit, err error) error {
	if !errors.Is(err, postrider.ErrNotFound) {
		return err
	}
	return v.Show(page.View{Name: "reader-gone", Status: http.StatusGone})
}
