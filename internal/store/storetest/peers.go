package storetest

import (
	"fmt"
	"slices"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

func heartbeatPeers(w *world) {
	a, b, silent, leaving, dead := w.member(1), w.member(2), w.member(3), w.member(4), w.member(5)
	for _, m := range []*member{a, b, leaving, dead} {
		m.Address, m.PublicKey = fmt.Sprintf("host-%d:1", m.Incarnation), [32]byte{byte(m.Incarnation)}
	}
	w.shares(a, b, silent)
	leaving.Leaving = true
	leaving.heartbeats()
	dead.dies()
	shards := b.heartbeats().Shards
	want := []store.Peer{{Incarnation: 2, Address: b.Address, PublicKey: b.PublicKey, Shards: shards}}
	w.same("the peers of node 1", a.heartbeats().Peers, want)
	w.same("the peers of node 3", len(silent.heartbeats().Peers), 2)
}

func leasedListed(w *world) {
	e := w.endpoint()
	event := w.event(e.Account, w.to(e), w.to(e), w.to(e), w.to(e))
	for i, token := range []postrider.Token{7, 7, 8, 0} {
		if token != 0 {
			event.Deliveries[i].Token, event.Deliveries[i].Lease = token, long
		}
	}
	w.publish(store.Batch{event})
	leased := func(token postrider.Token, newer postrider.DeliveryID) map[postrider.DeliveryID]store.SessionLease {
		all := map[postrider.DeliveryID]store.SessionLease{}
		leases, err := w.Nodes.Leased(w.Context(), token, newer)
		w.ok(err)
		for _, l := range leases {
			all[l.Delivery] = l
		}
		return all
	}
	want := map[postrider.DeliveryID]store.SessionLease{}
	for _, d := range event.Deliveries[:2] {
		want[d.ID] = store.SessionLease{Lease: store.Lease{Delivery: d.ID, Token: 7}, Endpoint: e.ID, Lane: d.Lane}
	}
	w.same("what is leased", leased(7, postrider.DeliveryID{}), want)
	newest := slices.MaxFunc(event.Deliveries, func(a, b store.NewDelivery) int { return a.ID.Compare(b.ID) }).ID
	w.same("what is leased and newer", len(leased(7, newest)), 0)
	w.same("what nobody has leased", len(leased(9, postrider.DeliveryID{})), 0)
}
