package testkit

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// HostileRig runs hostile receivers. It has an authority for their certificates, and a DNS that
// lies about their names. It needs no test, so a benchmark can run it in a process of its own.
type HostileRig struct {
	CA *CA // the authority that a sender must trust

	wardrobe *wardrobe
	dns      *nameserver

	mu        sync.Mutex
	receivers []*HostileReceiver
}

// StartHostileRig starts a rig without receivers. The caller must close it.
func StartHostileRig() (*HostileRig, error) {
	ca, err := makeCA()
	if err != nil {
		return nil, err
	}
	dns, err := startNameserver(Hostiles())
	if err != nil {
		return nil, err
	}
	return &HostileRig{CA: ca, wardrobe: newWardrobe(ca), dns: dns}, nil
}

// NewHostileRig starts a rig that ends with the test.
func NewHostileRig(tb testing.TB) *HostileRig {
	tb.Helper()
	g, err := StartHostileRig()
	if err != nil {
		tb.Fatalf("start hostile rig: %v", err)
	}
	tb.Cleanup(g.Close)
	return g
}

// NewHostile starts a receiver that shows the misbehaviour on every connection, and returns its
// URL.
func NewHostile(tb testing.TB, h Hostile) string {
	tb.Helper()
	r, err := NewHostileRig(tb).Start(h, h.Schemes[0])
	if err != nil {
		tb.Fatalf("start hostile receiver: %v", err)
	}
	return r.URL
}

// NameserverAddress returns the address of the rig's DNS, for [ResolverAt].
func (g *HostileRig) NameserverAddress() string { return g.dns.address }

// Resolver returns a resolver that asks the rig's DNS.
func (g *HostileRig) Resolver() *net.Resolver { return ResolverAt(g.dns.address) }

// ResolverAt returns a resolver that asks the DNS at the address, and ignores the settings of this
// machine.
func ResolverAt(address string) *net.Resolver {
	return &net.Resolver{
		PreferGo: true,
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	}
}

// Close stops the receivers and the DNS, and waits for their goroutines.
func (g *HostileRig) Close() {
	g.mu.Lock()
	receivers := g.receivers
	g.receivers = nil
	g.mu.Unlock()
	for _, r := range receivers {
		r.Close()
	}
	g.dns.close()
}

// Start starts a receiver that shows the misbehaviour on every connection.
func (g *HostileRig) Start(h Hostile, scheme string) (*HostileReceiver, error) {
	if !slices.Contains(h.Schemes, scheme) {
		return nil, fmt.Errorf("start %q: it is not for %s", h.Name, scheme)
	}
	start := h.start
	if start == nil {
		start = somebody
	}
	place, err := start()
	if err != nil {
		return nil, fmt.Errorf("start %q: %w", h.Name, err)
	}
	r := &HostileReceiver{hostile: h, spot: place, stop: make(chan struct{})}
	host := "127.0.0.1"
	if h.name != "" {
		host = h.name + hostileZone
	}
	r.URL = scheme + "://" + net.JoinHostPort(host, strconv.Itoa(place.port)) + "/"
	if scheme == "https" && !h.raw {
		if r.config, err = g.wardrobe.dress(h); err != nil {
			return nil, errors.Join(fmt.Errorf("start %q: %w", h.Name, err), place.close())
		}
	}
	if h.start == nil {
		r.running.Go(r.accept)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.receivers = append(g.receivers, r)
	return r, nil
}

// HostileReceiver is one hostile receiver.
type HostileReceiver struct {
	URL string

	hostile Hostile
	config  *tls.Config // nil: no TLS
	spot    *spot
	stop    chan struct{}
	stopped sync.Once
	running sync.WaitGroup
	again   atomic.Int64
}

// Again returns how many requests came over a connection that must not be used again.
func (r *HostileReceiver) Again() int { return int(r.again.Load()) }

// Close stops the receiver, and waits for its connections.
func (r *HostileReceiver) Close() {
	r.stopped.Do(func() {
		close(r.stop)
		// An error means that the listener is closed already.
		_ = r.spot.close()
	})
	r.running.Wait()
}

func (r *HostileReceiver) accept() {
	for {
		conn, err := r.spot.listener.AcceptTCP()
		if err != nil {
			return
		}
		r.running.Go(func() { r.play(conn) })
	}
}

// play runs the steps until one fails. Every step fails once the peer or the test has gone.
func (r *HostileReceiver) play(tcp *net.TCPConn) {
	defer tcp.Close()
	done := make(chan struct{})
	defer close(done)
	r.running.Go(func() {
		select {
		case <-r.stop:
			tcp.Close()
		case <-done:
		}
	})
	p := &peer{Conn: tcp, tcp: tcp, stop: r.stop, asked: func() { r.again.Add(1) }}
	if r.hostile.Big && tcp.SetReadBuffer(4<<10) != nil {
		return
	}
	if r.config != nil {
		p.below = &poisonable{Conn: tcp}
		secure := tls.Server(p.below, r.config)
		if secure.Handshake() != nil {
			// If play closed now, the connection might be reset before the peer has read the alert.
			_ = linger(p)
			return
		}
		p.Conn = secure
	}
	p.in = bufio.NewReader(p.Conn)
	r.perform(p)
}

func (r *HostileReceiver) perform(p *peer) {
	for {
		for _, a := range r.hostile.steps {
			if a(p) != nil {
				return
			}
		}
		if !r.hostile.Kept {
			return
		}
	}
}

// spot is a port of this machine, with its listener and connections.
type spot struct {
	port     int
	listener *net.TCPListener
	guests   []net.Conn
}

func (s *spot) close() error {
	var errs []error
	for _, c := range s.guests {
		errs = append(errs, c.Close())
	}
	return errors.Join(append(errs, s.listener.Close())...)
}

// somebody returns a spot with a listener.
func somebody() (*spot, error) {
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	address, err := net.ResolveTCPAddr("tcp", listener.Addr().String())
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return &spot{port: address.Port, listener: listener}, nil
}

// nobody returns a spot whose port refuses connections. The port is the local port of an open
// connection, so no other program can listen on it.
func nobody() (*spot, error) {
	s, err := somebody()
	if err != nil {
		return nil, err
	}
	guest, err := net.DialTCP("tcp", nil, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: s.port})
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	s.guests = append(s.guests, guest)
	near, err := net.ResolveTCPAddr("tcp", guest.LocalAddr().String())
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	s.port = near.Port
	return s, nil
}

// blackHole returns a spot that never answers a SYN. Its accept queue has room for one connection,
// and is full. So it needs no rights and no routes, and a sender sees no difference to a real black
// hole.
func blackHole() (*spot, error) {
	s, err := somebody()
	if err != nil {
		return nil, err
	}
	raw, err := s.listener.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	var shrunk error
	err = raw.Control(func(fd uintptr) { shrunk = syscall.Listen(int(fd), 0) })
	if err := errors.Join(err, shrunk); err != nil {
		return nil, errors.Join(err, s.close())
	}
	guest, err := net.Dial("tcp", s.listener.Addr().String())
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	s.guests = append(s.guests, guest)
	return s, nil
}
