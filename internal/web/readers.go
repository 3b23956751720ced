package web

import (
	"context"
	"errors"
	"net/http"
	"net/netip"

	"github.com/postrider/postrider"
)

// Readers acts on the links in emails. The readers of emails have no session.
//
// The errors match postrider.ErrNotFound for the text of a link that does not work, or no
// longer.
type Readers interface {
	// Find returns what a link is about. It changes nothing.
	Find(ctx context.Context, action postrider.LinkAction, text string) (Reader, error)
	// Follow does what the link says. Again, it changes nothing more.
	Follow(ctx context.Context, action postrider.LinkAction, text string, from netip.Addr) error
}

// Reader is whom a link in an email was sent to.
type Reader struct {
	Address  string
	Kind     postrider.NoticeKind // that the link unsubscribes from; [postrider.AllKinds]: all
	Language string               // of the email
	Operator bool                 // the address is one of the operator's
}

// readerRoutes lists the pages of the links in emails. A GET changes nothing, because mail
// scanners open links; the POST does. That of unsubscribing may come from the program of the
// reader's mail provider (RFC 8058), without a session, a cookie or an Origin.
func readerRoutes() []route {
	var routes []route
	for _, action := range []postrider.LinkAction{postrider.LinkConfirm, postrider.LinkUnsubscribe} {
		path := " /notices/" + string(action) + "/{text}"
		routes = append(routes,
			route{pattern: "GET" + path, handle: func(v *visit) error { return v.askReader(action) }},
			route{pattern: "POST" + path, handle: func(v *visit) error { return v.followLink(action) }})
	}
	return routes
}

// readerPage is the data of the pages of links.
type readerPage struct {
	Reader

	Action postrider.LinkAction
	All    bool   // the link is about all kinds of notices
	Path   string // of this page
	Done   bool
}

// reader returns what the link of the visit is about, and speaks the language of its email.
func (v *visit) reader(action postrider.LinkAction) (readerPage, error) {
	r, err := v.h.Readers.Find(v.ctx, action, v.r.PathValue("text"))
	if err != nil {
		return readerPage{}, err
	}
	v.portal = !r.Operator
	v.speak(Session{Language: r.Language})
	return readerPage{Reader: r, Action: action, All: r.Kind == postrider.AllKinds, Path: v.r.URL.Path}, nil
}

// askReader shows a button that does what the link says.
func (v *visit) askReader(action postrider.LinkAction) error {
	p, err := v.reader(action)
	if err != nil {
		return v.refuseReader(err)
	}
	return v.show(page{Name: "reader", Data: p})
}

// followLink does what the link says.
func (v *visit) followLink(action postrider.LinkAction) error {
	p, err := v.reader(action)
	if err == nil {
		err = v.h.Readers.Follow(v.ctx, action, v.r.PathValue("text"), v.remote())
	}
	if err != nil {
		return v.refuseReader(err)
	}
	p.Done = true
	return v.show(page{Name: "reader", Data: p})
}

// refuseReader says that a link does not work.
func (v *visit) refuseReader(err error) error {
	if !errors.Is(err, postrider.ErrNotFound) {
		return err
	}
	return v.show(page{Name: "reader-gone", Status: http.StatusGone})
}
