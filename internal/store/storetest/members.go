package storetest

import (
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// members lists the nodes, with their times set to zero.
func (w *world) members() []store.Member {
	w.Helper()
	members, err := w.Nodes.Members(w.Context(), postrider.EndpointID{})
	w.ok(err)
	for i, m := range members {
		if m.StartedAt.IsZero() || m.SeenAt.Before(m.StartedAt) {
			w.Errorf("node %d started at %v and was seen at %v", m.Incarnation, m.StartedAt, m.SeenAt)
		}
		members[i].StartedAt, members[i].SeenAt = time.Time{}, time.Time{}
	}
	return members
}

func membersListed(w *world) {
	w.shares(w.member(2), w.member(1))
	w.same("the nodes", w.members(), []store.Member{
		{Incarnation: 1, Host: "host-1", Shards: 128},
		{Incarnation: 2, Host: "host-2", Shards: 128},
	})
}

func membersOwning(w *world) {
	owned := w.shares(w.member(1), w.member(2))
	for range 20 {
		id := newID[postrider.EndpointID](w)
		owner := uint32(1)
		if slices.Contains(owned[1], store.Shard(id)) {
			owner = 2
		}
		members, err := w.Nodes.Members(w.Context(), id)
		w.ok(err)
		if len(members) != 1 || members[0].Incarnation != owner {
			w.Errorf("of shard %d the nodes are %+v, want node %d alone", store.Shard(id), members, owner)
		}
	}
}

func membersMarked(w *world) {
	a, b := w.member(1), w.member(2)
	a.heartbeats()
	a.Leaving = true
	a.heartbeats(everyShard()...)
	b.dies()
	w.same("the nodes", w.members(), []store.Member{
		{Incarnation: 1, Host: "host-1", Leaving: true},
		{Incarnation: 2, Host: "host-2", Shards: 256, Dead: true},
	})
	_, err := w.Reclaim(w.Context(), 2, 10)
	w.ok(err)
	w.same("the nodes after the reclaim", w.members(), []store.Member{{Incarnation: 1, Host: "host-1", Leaving: true}})
}
