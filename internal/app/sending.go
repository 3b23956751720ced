package app

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/config"
	"github.com/postrider/postrider/internal/dispatch"
	"github.com/postrider/postrider/internal/doctor"
	"github.com/postrider/postrider/internal/egress"
	"github.com/postrider/postrider/internal/inspect"
	"github.com/postrider/postrider/internal/janitor"
	"github.com/postrider/postrider/internal/messenger"
	"github.com/postrider/postrider/internal/peers"
	"github.com/postrider/postrider/internal/routing"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/webhook"
)

// sending has the parts that make requests to receivers, and decide when.
type sending struct {
	table      *routing.Table
	egress     *egress.Egress
	sender     *webhook.Sender
	inspector  *inspect.Inspector
	senders    *senders // makes the attempts of the dispatcher
	dispatcher *dispatch.Dispatcher
	peers      *peers.Peers // nil: nothing is handed between nodes
	messenger  *messenger.Messenger
	forget     func() // empties the caches of the API; set by newAPI, before the dispatcher runs
}

// newSending makes the parts that make requests to receivers.
func newSending(ctx context.Context, b base, k *kept) (*sending, error) {
	s := &sending{table: routing.New(k.store, routing.Options{SetAside: k.janitor.SetAside, Log: b.logOf("routing")})}
	own, err := egress.LocalPrefixes() // an endpoint must not reach our own API
	if err != nil {
		return nil, err
	}
	ports, anyPort, _ := b.config.Ports() // Validate has checked the ports
	proxy, _ := b.config.Proxy()          // Validate has checked the proxy
	files, inFlight := descriptors(ctx, b.config.Concurrency, b.log)
	s.egress = egress.New(egress.Options{
		Reach: egress.Reach{
			AllowHTTP: b.config.AllowsHTTP(),
			Allow:     b.config.Allowed(),
			Deny:      own,
			Ports:     ports, AnyPort: anyPort || b.config.Dev,
		},
		Proxy:       proxy,
		Descriptors: files, LocalPorts: egress.LocalPorts(),
	})
	wall := k.store.Clock().Wall
	s.sender = webhook.New(s.egress, k.secrets, webhook.Options{
		UserAgent: "Postrider/" + Version(), ReceiverControl: b.config.ReceiverControl, Now: wall, Sampled: b.watchers.tracer.Sampled,
		Log: b.logOf("webhook"),
		Continue: func(ctx context.Context, c postrider.Claimed, refused postrider.Attempt) error {
			return s.dispatcher.Continue(ctx, c, refused)
		},
		Current: func(c *postrider.Claimed, to *store.EndpointSnapshot) bool { return s.dispatcher.Current(c, to) },
	})
	s.inspector = inspect.New(inspect.Deps{
		Store: k.store, Signer: s.sender, Vault: k.secrets, IDs: k.ids, Now: wall, Log: b.logOf("inspect"),
	})
	s.senders = &senders{s.sender, s.inspector}
	cluster := dispatch.Cluster{
		Nodes: k.nodes, Incarnation: k.ids.Node(), Host: config.Hostname(), PollOnly: b.config.PollOnly, OnMessage: b.watchers.live.Receive,
		OnAccounts: func() { s.forget() },
	}
	if s.peers, err = newPeers(ctx, b, k); err != nil {
		return nil, err
	}
	if s.peers != nil {
		cluster.Address, cluster.PublicKey, cluster.Peers = s.peers.Address(), s.peers.PublicKey(), s.peers
	}
	s.dispatcher = dispatch.New(k.store, &endpoints{s.table, k.janitor}, s.senders, dispatch.Options{
		Concurrency:     b.config.Concurrency,
		MaxInFlight:     inFlight,
		HostConcurrency: b.config.HostConcurrency,
		Drain:           b.config.DrainTimeout,
		Cluster:         cluster,
		Hooks:           b.hooks(),
		Log:             b.logOf("dispatch"),
	})
	s.messenger = newMessenger(b, k, s.egress)
	return s, nil
}

// newPeers returns nil if there are no other nodes, or the settings want no connections to them.
func newPeers(ctx context.Context, b base, k *kept) (*peers.Peers, error) {
	if k.nodes == nil || b.config.PeerListen == config.PeersOff {
		return nil, nil //nolint:nilnil // nil is the value
	}
	local, err := k.nodes.LocalAddr(ctx)
	if err != nil {
		return nil, err
	}
	p, err := peers.New(ctx, cmp.Or(b.config.PeerListen, ":0"), local, b.logOf("peers"))
	if err != nil {
		return nil, fmt.Errorf("--peer-listen: %w", err)
	}
	b.log.InfoContext(ctx, "listens for other servers", "address", p.Address())
	return p, nil
}

// newMessenger makes the messenger, which sends notices. The webhooks of accounts pass the checks
// of egress.
func newMessenger(b base, k *kept, guarded *egress.Egress) *messenger.Messenger {
	channels := map[postrider.Channel]messenger.Channel{
		postrider.ChannelSlack: messenger.Slack{Guarded: guarded.Post, Operator: egress.PostAsOperator},
	}
	if email, ok := b.config.Email(); ok {
		channels[postrider.ChannelEmail] = email
	}
	templates, _ := b.config.Templates() // Validate has read the templates
	return messenger.New(messenger.Deps{Store: k.store, Signer: k.secrets, Channels: channels}, messenger.Options{
		Interval: b.config.NoticeInterval, Brand: b.config.NoticeBrand, PublicURL: b.publicURL, Templates: templates,
		PortalLoginURL: b.config.PortalLoginURL, Hooks: b.hooks(), Log: b.logOf("messenger"),
	})
}

// descriptors returns the number of files that this process may open, or 0 if it is unknown.
// inFlight is the number of attempts that may be in flight with that many files: the number of
// connections that may be open. If there are few connections, endpoints share them like all scarce
// slots.
func descriptors(ctx context.Context, concurrency int, log *slog.Logger) (files uint64, inFlight int) {
	files, err := doctor.OpenFileLimit()
	if err != nil {
		log.WarnContext(ctx, "the limit of open files is not known", "error", err)
		return 0, 0
	}
	inFlight = egress.Connections(files)
	if check := doctor.CheckOpenFiles(files, concurrency); check.Status != doctor.OK {
		log.WarnContext(ctx, "this process may open too few files", "found", check.Found, "remedy", check.Remedy, "attempts_in_flight", inFlight)
	}
	return files, inFlight
}

// senders passes each attempt to the sender for the kind of its endpoint.
type senders struct{ http, inspector dispatch.Sender }

// Send implements [dispatch.Sender].
func (s *senders) Send(
	ctx context.Context, deadline time.Time, c *postrider.Claimed, to *store.EndpointSnapshot,
) postrider.Attempt {
	if to.Endpoint.Kind == postrider.KindInspector {
		return s.inspector.Send(ctx, deadline, c, to)
	}
	return s.http.Send(ctx, deadline, c, to)
}

// endpoints gives the dispatcher the endpoints of the routing table. It adds Disable, which the
// dispatcher calls for an endpoint whose receiver asked for it.
type endpoints struct {
	*routing.Table

	janitor *janitor.Janitor
}

// Disable disables the endpoint in the store. It then refreshes the routing table, so that this
// node makes no more attempts. Other nodes see the change at their next refresh.
func (e *endpoints) Disable(ctx context.Context, id postrider.EndpointID, reason string) error {
	if err := e.janitor.Disable(ctx, id, reason); err != nil {
		return err
	}
	return e.Refresh(ctx)
}
