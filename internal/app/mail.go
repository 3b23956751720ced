package app

import (
	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/config"
	"github.com/postrider/postrider/internal/egress"
	"github.com/postrider/postrider/internal/messenger"
)

// newMessenger returns what sends notices. Webhooks of accounts pass the guard.
func (a *App) newMessenger() *messenger.Messenger {
	channels := map[postrider.Channel]messenger.Channel{
		postrider.ChannelSlack: messenger.Slack{Guarded: a.egress.Post, Operator: egress.PostAsOperator},
	}
	if email, ok := a.config.Email(); ok {
		channels[postrider.ChannelEmail] = email
	}
	templates, _ := a.config.Templates() // Validate has read them
	return messenger.New(messenger.Deps{Store: a.store, Signer: a.secrets, Channels: channels}, messenger.Options{
		Interval: a.config.NoticeInterval, Brand: a.config.NoticeBrand, PublicURL: a.config.PublicURLAt(a.Addr()), Templates: templates,
		PortalLoginURL: a.config.PortalLoginURL,
		Hooks:          a.observer.Hooks, Log: config.LogOf(a.log, "messenger"),
	})
}
