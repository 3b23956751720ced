package signature

import "strconv"

// Content says what a format signs: the Prefix, followed by the body. People compare it with the
// content that a receiver verifies.
type Content struct {
	Header string // name of the header field that carries the signature
	Prefix string // signed before the body; empty: only the body is signed
}

// Content returns what the format signs, without the body. It needs no key and does not read the
// body.
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
