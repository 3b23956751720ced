package apitypes

import "github.com/postrider/postrider"

// Notice tells people about something that needs their attention. The data of its operational event
// has the same shape.
type Notice struct {
	ID        postrider.NoticeID   `json:"id"`
	Kind      string               `json:"kind" example:"endpoint.disabled" doc:"What it is about; docs/operate/notices.md lists the kinds. The type of its operational event is postrider. and the kind. New kinds may come."`
	Account   *postrider.AccountID `json:"account" nullable:"true" doc:"Whose notice it is. Null: it is about the server, or about several accounts."`
	Object    string               `json:"object" doc:"Id of the endpoint, the replay or the account; of chore.failing the name of the chore, of the kinds of the disk the folder of the store."`
	Details   map[string]string    `json:"details" nullable:"false" doc:"More, by name; which names there are depends on the kind. Times are RFC 3339."`
	CreatedAt Time                 `json:"created_at" format:"date-time"`
}

// NoticeOf returns a notice in the form of a response.
func NoticeOf(n postrider.Notice) Notice {
	view := Notice{ID: n.ID, Kind: string(n.Kind), Object: n.Object, Details: n.Details, CreatedAt: Time{n.CreatedAt}}
	if !n.Account.IsZero() {
		view.Account = &n.Account
	}
	if view.Details == nil {
		view.Details = map[string]string{}
	}
	return view
}
