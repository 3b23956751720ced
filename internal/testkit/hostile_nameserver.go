package testkit

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"

	"golang.org/x/net/dns/dnsmessage"
)

// nameserver is a DNS server on the loopback interface, over UDP and TCP at the same port.
type nameserver struct {
	address string
	udp     net.PacketConn
	tcp     net.Listener
	running sync.WaitGroup

	mu     sync.Mutex
	lies   map[string]lie // by name, with a dot at the end
	asked  map[dnsmessage.Question]int
	conns  map[net.Conn]bool
	closed bool
}

// startNameserver starts a server that knows the names of the list.
func startNameserver(list []Hostile) (*nameserver, error) {
	tcp, udp, err := twins()
	if err != nil {
		return nil, fmt.Errorf("start nameserver: %w", err)
	}
	s := &nameserver{
		address: tcp.Addr().String(), udp: udp, tcp: tcp,
		lies: map[string]lie{}, asked: map[dnsmessage.Question]int{}, conns: map[net.Conn]bool{},
	}
	for _, h := range list {
		if h.lie != nil {
			s.lies[h.name+hostileZone+"."] = h.lie
		}
	}
	s.running.Go(s.serveUDP)
	s.running.Go(s.serveTCP)
	return s, nil
}

// twins returns two listeners with the same port.
func twins() (tcp net.Listener, udp net.PacketConn, err error) {
	for range 100 { // another process may use the UDP port
		if tcp, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return nil, nil, err
		}
		if udp, err = net.ListenPacket("udp", tcp.Addr().String()); err == nil {
			return tcp, udp, nil
		}
		err = errors.Join(err, tcp.Close())
	}
	return nil, nil, err
}

// close ends the listeners and all connections. Errors do not matter, since they may be closed
// already.
func (s *nameserver) close() {
	s.mu.Lock()
	s.closed = true
	for c := range s.conns {
		c.Close()
	}
	s.mu.Unlock()
	_ = s.udp.Close()
	_ = s.tcp.Close()
	s.running.Wait()
}

func (s *nameserver) serveUDP() {
	room := make([]byte, 4<<10)
	for {
		n, from, err := s.udp.ReadFrom(room)
		if err != nil {
			return
		}
		if reply := s.answer(room[:n], false); reply != nil {
			// The client may be gone.
			_, _ = s.udp.WriteTo(reply, from)
		}
	}
}

func (s *nameserver) serveTCP() {
	for {
		conn, err := s.tcp.Accept()
		if err != nil {
			return
		}
		s.running.Go(func() { s.serveConn(conn) })
	}
}

// enter registers a connection, so that close can end it. It returns false if the server is closed.
func (s *nameserver) enter(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[conn] = true
	return !s.closed
}

func (s *nameserver) leave(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, conn)
	conn.Close()
}

func (s *nameserver) serveConn(conn net.Conn) {
	defer s.leave(conn)
	for s.enter(conn) {
		var size [2]byte
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			return
		}
		query := make([]byte, int(size[0])<<8|int(size[1]))
		if _, err := io.ReadFull(conn, query); err != nil {
			return
		}
		reply := s.answer(query, true)
		if reply == nil {
			continue
		}
		if _, err := conn.Write(append([]byte{byte(len(reply) >> 8), byte(len(reply))}, reply...)); err != nil {
			return
		}
	}
}

// mostUDP is the most bytes of an answer over UDP: the size that resolvers accept.
const mostUDP = 1232

// answer returns the reply to a query; nil if there is none.
func (s *nameserver) answer(query []byte, tcp bool) []byte {
	var p dnsmessage.Parser
	head, err := p.Start(query)
	if err != nil {
		return nil
	}
	asked, err := p.Question()
	if err != nil {
		return nil
	}
	r := s.look(asked, tcp)
	switch {
	case r.mute:
		return nil
	case r.garbage != "":
		return []byte(r.garbage)
	}
	message := dnsmessage.Message{
		Header: dnsmessage.Header{
			ID: head.ID, Response: true, RecursionDesired: head.RecursionDesired, RecursionAvailable: true,
			RCode: r.code, Truncated: r.short,
		},
		Questions: []dnsmessage.Question{asked}, Answers: r.records,
	}
	packed, err := message.Pack()
	if err == nil && (tcp || len(packed) <= mostUDP) {
		return packed
	}
	message.Truncated, message.Answers = true, nil
	if packed, err = message.Pack(); err != nil {
		return nil
	}
	return packed
}

func (s *nameserver) look(asked dnsmessage.Question, tcp bool) reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	z := s.lies[strings.ToLower(asked.Name.String())]
	if z == nil {
		return reply{code: dnsmessage.RCodeNameError}
	}
	s.asked[asked]++
	return z(question{name: asked.Name, kind: asked.Type, tcp: tcp, asked: s.asked[asked]})
}
