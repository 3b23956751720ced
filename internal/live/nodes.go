package live

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/observe"
)

// Each node knows only the attempts that it made. A node with a subscription tells the other nodes,
// and they send it their attempts:
//
//	watch *                     I have subscriptions to all accounts; repeated every 4 s
//	watch acc_01jd… acc_01je…   I have subscriptions to these accounts; repeated every 4 s
//	watch                       I have no subscription any more
//	attempts BASE64             I settled these attempts in the last quarter of a second
//
// Messages may be lost, and nodes may die. So a node forgets the subscriptions of another node
// after 12 s without a watch message. While no node has a subscription, there are no messages.
const (
	verbWatch    = "watch"
	verbAttempts = "attempts"

	flushEvery  = 250 * time.Millisecond // so at most four messages a second with attempts
	renewEvery  = 4 * time.Second
	watchedFor  = 3 * renewEvery
	maxAccounts = 128 // accounts in one message; a node with more sends *
	// maxBatch is the most bytes of a batch: 6.7 KB in base64. PostgreSQL limits a notification to
	// 8 KB.
	maxBatch    = 5 << 10
	maxOutgoing = 64 // items that wait for the next batch; more do not fit into one
	// maxLeftOut is how many accounts have a count of their own for attempts that a batch leaves
	// out. All further accounts share one count.
	maxLeftOut   = 16
	batchVersion = 1
)

// peer is another node that has subscriptions.
type peer struct {
	accounts map[postrider.AccountID]struct{} // accounts of its subscriptions; nil: all
	// until is when the peer is forgotten. Each watch message of the peer sets it anew.
	until time.Time
}

// outgoing are the attempts of this node for the other nodes. Guarded by Hub.mu.
type outgoing struct {
	items   []observe.Attempted         // at most maxOutgoing
	leftOut map[postrider.AccountID]int // left-out attempts; the zero account: of several
}

// wantedLocked reports whether another node has a subscription that may select the account.
func (h *Hub) wantedLocked(account postrider.AccountID) bool {
	for _, p := range h.peers {
		if _, watches := p.accounts[account]; watches || p.accounts == nil {
			return true
		}
	}
	return false
}

// offerLocked adds an attempt of this node to the next batch, if another node wants it.
func (h *Hub) offerLocked(a *observe.Attempted) {
	switch {
	case !h.wantedLocked(a.Account):
	case len(h.out.items) < maxOutgoing:
		h.out.items = append(h.out.items, *a)
	default:
		h.out.leaveOut(a.Account, 1)
	}
}

func (o *outgoing) leaveOut(account postrider.AccountID, n int) {
	if o.leftOut == nil {
		o.leftOut = map[postrider.AccountID]int{}
	}
	if _, counted := o.leftOut[account]; !counted && len(o.leftOut) >= maxLeftOut {
		account = postrider.AccountID{}
	}
	o.leftOut[account] += n
}

// Run exchanges messages with the other nodes until ctx ends. send sends a message to all other
// nodes, which pass it to [Hub.Receive]. Without Run, the hub knows only the attempts of its own
// node.
func (h *Hub) Run(ctx context.Context, send func(ctx context.Context, message string)) error {
	ticker := time.NewTicker(flushEvery)
	defer ticker.Stop()
	var sent string // arguments of the last watch message; empty: it had none, or none was sent
	var sentAt time.Time
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
		watching, out := h.tick(time.Now())
		if watching != sent || watching != "" && time.Since(sentAt) >= renewEvery {
			send(ctx, strings.TrimSpace(verbWatch+" "+watching))
			sent, sentAt = watching, time.Now()
		}
		if len(out.items)+len(out.leftOut) > 0 {
			send(ctx, verbAttempts+" "+base64.RawStdEncoding.EncodeToString(out.encode()))
		}
	}
}

// tick forgets nodes that have not renewed their subscriptions. It returns the arguments of this
// node's watch message, and the attempts for the next batch, which it removes from the hub.
func (h *Hub) tick(now time.Time) (watching string, out outgoing) {
	if !h.watched.Load() {
		return "", outgoing{}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for from, p := range h.peers {
		if !now.Before(p.until) {
			delete(h.peers, from)
		}
	}
	h.noteWatchedLocked()
	out, h.out = h.out, outgoing{}
	return h.watchingLocked(), out
}

// watchingLocked returns the accounts of this node's subscriptions, as the arguments of a watch
// message; empty if there is no subscription.
func (h *Hub) watchingLocked() string {
	accounts := map[postrider.AccountID]struct{}{}
	for s := range h.subs {
		accounts[s.watch.Account] = struct{}{}
	}
	if _, all := accounts[postrider.AccountID{}]; all || len(accounts) > maxAccounts {
		return "*"
	}
	names := make([]string, 0, len(accounts))
	for account := range accounts {
		names = append(names, account.String())
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// noteWatchedLocked sets watched after a change of the subscriptions or the peers. Without a peer
// it drops the attempts of the next batch: they would be old when another peer comes.
func (h *Hub) noteWatchedLocked() {
	h.watched.Store(len(h.subs)+len(h.peers) > 0)
	if len(h.peers) == 0 {
		h.out = outgoing{}
	}
}

// Receive handles a message of the node with the name from. It does not block, and ignores a
// message that it cannot read.
func (h *Hub) Receive(from, verb, arguments string) {
	switch verb {
	case verbWatch:
		h.watchedBy(from, arguments)
	case verbAttempts:
		batch, err := base64.RawStdEncoding.DecodeString(arguments)
		if err != nil {
			return
		}
		out, ok := decode(batch)
		if !ok {
			return
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		for n := range out.items {
			h.publishLocked(&out.items[n])
		}
		for account, n := range out.leftOut {
			h.lostLocked(account, n)
		}
	}
}

// watchedBy stores the subscriptions of another node.
func (h *Hub) watchedBy(from, arguments string) {
	p := peer{until: time.Now().Add(watchedFor)}
	if arguments != "*" {
		p.accounts = map[postrider.AccountID]struct{}{}
		for name := range strings.FieldsSeq(arguments) {
			if account, err := postrider.ParseID[postrider.AccountID](name); err == nil {
				p.accounts[account] = struct{}{}
			}
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.peers, from)
	if arguments != "" {
		h.peers[from] = p
	}
	h.noteWatchedLocked()
}

// lostLocked records that n attempts were left out, in the subscriptions that select the account. The
// zero account stands for several accounts. A subscription to one account may then have missed none
// or several of the n attempts; it counts one.
func (h *Hub) lostLocked(account postrider.AccountID, n int) {
	for s := range h.subs {
		switch {
		case s.watch.Account.IsZero() || s.watch.Account == account:
			s.lost += n
		case account.IsZero():
			s.lost++
		default:
			continue
		}
		s.ready.Set()
	}
}

// encode returns the batch: a version, the numbers of left-out attempts, and the items, the oldest
// first. Items that do not fit are counted as left out.
func (o *outgoing) encode() []byte {
	var items []byte
	for n := range o.items {
		grown := appendItem(items, &o.items[n])
		if len(grown) > maxBatch-(maxLeftOut+1)*(16+binary.MaxVarintLen64)-2 {
			o.leaveOut(o.items[n].Account, 1)
			continue
		}
		items = grown
	}
	b := binary.AppendUvarint([]byte{batchVersion}, uint64(len(o.leftOut)))
	for account, n := range o.leftOut {
		b = binary.AppendUvarint(append(b, account[:]...), uint64(n))
	}
	return append(b, items...)
}

// appendItem appends an item in its binary form.
func appendItem(b []byte, a *observe.Attempted) []byte {
	for _, id := range [][16]byte{a.Delivery, a.Event, a.Endpoint, a.Account, a.ReplayedFrom} {
		b = append(b, id[:]...)
	}
	for _, n := range []int64{
		int64(a.Attempt), int64(slices.Index(postrider.Outcomes, a.Outcome)), int64(a.StatusCode), a.Duration.Microseconds(),
		int64(slices.Index(postrider.Statuses, a.Status)), a.At.UnixMicro(), int64(len(a.EventType)),
	} {
		b = binary.AppendVarint(b, n)
	}
	return append(b, a.EventType...)
}

// decode reads a batch. ok is false if the batch is malformed or has another version.
func decode(b []byte) (out outgoing, ok bool) {
	r := reader{rest: b}
	if version := r.take(1); len(version) == 0 || version[0] != batchVersion {
		return out, false
	}
	for range min(r.uvarint(), maxLeftOut+1) {
		account := postrider.AccountID(r.id())
		out.leaveOut(account, int(min(r.uvarint(), 1<<31)))
	}
	for len(r.rest) > 0 && !r.bad {
		a := observe.Attempted{
			Delivery: r.id(), Event: r.id(), Endpoint: r.id(), Account: r.id(), ReplayedFrom: r.id(),
			Attempt: int(r.varint()), Outcome: nth(&r, postrider.Outcomes), StatusCode: int(r.varint()),
			Duration: time.Duration(r.varint()) * time.Microsecond, Status: nth(&r, postrider.Statuses), At: time.UnixMicro(r.varint()).UTC(),
		}
		a.EventType = string(r.take(int(r.varint())))
		out.items = append(out.items, a)
	}
	return out, !r.bad
}

// reader reads a batch. After a malformed field it sets bad, and returns only zero values.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) take(n int) []byte {
	if r.bad || n < 0 || n > len(r.rest) {
		r.bad, r.rest = true, nil
		return nil
	}
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

func (r *reader) id() (id [16]byte) {
	copy(id[:], r.take(len(id)))
	return id
}

func (r *reader) varint() int64   { return number(r, binary.Varint) }
func (r *reader) uvarint() uint64 { return number(r, binary.Uvarint) }

// number reads a number with read, a function of package binary.
func number[T any](r *reader, read func([]byte) (T, int)) (none T) {
	v, n := read(r.rest)
	if n <= 0 {
		r.take(-1)
		return none
	}
	r.take(n)
	return v
}

// nth reads an index and returns the element of the list at that index.
func nth[T any](r *reader, list []T) (element T) {
	n := r.varint()
	if n < 0 || n >= int64(len(list)) {
		r.take(-1)
		return element
	}
	return list[n]
}
