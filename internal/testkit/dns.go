package testkit

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// Zone maps names to the answers of the DNS. A name is in lower case with a dot at its end. Its
// lists are answered in turn, and then from the first one again. In a list, a text that ends with a
// dot is a CNAME, and any other text is an address. The name "." stands for all names that are not
// in the zone. Without it, these names do not exist.
type Zone map[string][][]string

// DNS is a name server. Every answer has a time to live of 0.
type DNS struct {
	Addr string // host:port, UDP

	conn net.PacketConn
	zone Zone

	mu    sync.Mutex
	turns map[dnsmessage.Question]int
}

// NewDNS starts a name server on the address.
func NewDNS(tb testing.TB, address string, zone Zone) *DNS {
	tb.Helper()
	conn, err := net.ListenPacket("udp", address)
	if err != nil {
		tb.Fatalf("listen for questions: %v", err)
	}
	d := &DNS{Addr: conn.LocalAddr().String(), conn: conn, zone: zone, turns: map[dnsmessage.Question]int{}}
	var serving sync.WaitGroup
	serving.Go(d.serve)
	tb.Cleanup(func() {
		conn.Close()
		serving.Wait()
	})
	return d
}

// Asked returns the names that were asked for, each once, sorted.
func (d *DNS) Asked() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var names []string
	for q := range d.turns {
		names = append(names, strings.ToLower(q.Name.String()))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (d *DNS) serve() {
	packet := make([]byte, 1232)
	for {
		n, from, err := d.conn.ReadFrom(packet)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		if answer := d.answer(packet[:n]); answer != nil {
			_, _ = d.conn.WriteTo(answer, from) // if it is lost, the client asks again
		}
	}
}

// answer returns the answer to a packet; nil if there is none.
func (d *DNS) answer(packet []byte) []byte {
	var p dnsmessage.Parser
	head, err := p.Start(packet)
	if err != nil {
		return nil
	}
	q, err := p.Question()
	if err != nil {
		return nil
	}
	head = dnsmessage.Header{
		ID: head.ID, Response: true, Authoritative: true, RecursionAvailable: true,
		RecursionDesired: head.RecursionDesired,
	}
	records, known := d.records(q)
	if !known {
		head.RCode = dnsmessage.RCodeNameError
	}
	b := dnsmessage.NewBuilder(nil, head)
	b.EnableCompression()
	err = errors.Join(b.StartQuestions(), b.Question(q), b.StartAnswers())
	for _, r := range records {
		err = errors.Join(err, r(&b))
	}
	answer, finishErr := b.Finish()
	if err != nil || finishErr != nil {
		return nil
	}
	return answer
}

// record adds one record to an answer.
type record func(*dnsmessage.Builder) error

// records returns the records of the zone for the question. It follows CNAMEs.
func (d *DNS) records(q dnsmessage.Question) (list []record, found bool) {
	owner := q.Name
	for range 8 {
		texts, known := d.turn(dnsmessage.Question{Name: owner, Type: q.Type, Class: q.Class})
		if !known || len(texts) != 1 || !strings.HasSuffix(texts[0], ".") {
			for _, text := range texts {
				list = append(list, address(owner, q.Type, text))
			}
			return list, known || len(list) > 0
		}
		target := dnsmessage.MustNewName(texts[0])
		head := dnsmessage.ResourceHeader{Name: owner, Class: dnsmessage.ClassINET}
		list = append(list, func(b *dnsmessage.Builder) error {
			return b.CNAMEResource(head, dnsmessage.CNAMEResource{CNAME: target})
		})
		owner = target
	}
	return list, true
}

// turn returns the next list of a name. Questions for A and for AAAA have separate turns, because
// one lookup asks both.
func (d *DNS) turn(q dnsmessage.Question) (texts []string, known bool) {
	d.mu.Lock()
	n := d.turns[q]
	d.turns[q] = n + 1
	d.mu.Unlock()
	lists, known := d.zone[strings.ToLower(q.Name.String())]
	if !known {
		lists, known = d.zone["."]
	}
	if !known {
		return nil, false
	}
	return lists[n%len(lists)], true
}

// address returns a record that adds the address, if the address is of the type t.
func address(owner dnsmessage.Name, t dnsmessage.Type, text string) record {
	head := dnsmessage.ResourceHeader{Name: owner, Class: dnsmessage.ClassINET}
	ip := netip.MustParseAddr(text)
	return func(b *dnsmessage.Builder) error {
		switch {
		case t == dnsmessage.TypeA && ip.Is4():
			return b.AResource(head, dnsmessage.AResource{A: ip.As4()})
		case t == dnsmessage.TypeAAAA && ip.Is6():
			return b.AAAAResource(head, dnsmessage.AAAAResource{AAAA: ip.As16()})
		}
		return nil
	}
}
