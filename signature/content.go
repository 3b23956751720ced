package signature

import "strconv"

// Content is the text that a format signs: the Prefix, followed by the body. Receivers
// compare it with the text that they verify.
type Content struct {
	Header string // name of the header field that carries the signature
	Prefix string // signed in front of the body; empty: only the body is signed
}

// Content returns the text that the format signs, without the body. It needs no key and
// reads no body.
func (f Format) Content(m Message) (Content, error) {
	f, err := f.check()
	if err != nil {
		return Content{}, err
	}
	if err := m.check(); err != nil {
		return Content{}, err
	}
	timestamp := strconv.FormatInt(m.Timestamp.Unix(), 10)
	switch f.Scheme {
	case Standard, Svix:
		return Content{listForms[f.Scheme].signature, m.ID + "." + timestamp + "."}, nil
	case Timestamped:
		return Content{standardForm.signature, timestamp + "."}, nil
	case Stripe:
		return Content{headerStripe, timestamp + "."}, nil
	case Slack:
		return Content{headerSlack, "v0:" + timestamp + ":"}, nil
	default:
		return Content{Header: bodyFormOf(f).header}, nil
	}
}
