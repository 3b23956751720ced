package testkit

import (
	"errors"
	"net/netip"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// tap reads every packet that this machine sends to itself. It records the packets that open a TCP
// connection, and datagrams that are not for the DNS.
type tap struct {
	socket int

	mu   sync.Mutex
	seen []netip.AddrPort
}

func newTap(tb testing.TB) *tap {
	tb.Helper()
	const everything = unix.ETH_P_ALL<<8 | unix.ETH_P_ALL>>8 // ETH_P_ALL in network byte order
	s, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, everything)
	if err != nil {
		tb.Fatalf("open the tap: %v", err)
	}
	err = errors.Join(
		unix.SetsockoptInt(s, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20),
		unix.SetsockoptTimeval(s, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 50_000}),
	)
	if err != nil {
		tb.Fatalf("set the tap up: %v", err)
	}
	t := &tap{socket: s}
	stop := make(chan struct{})
	var reading sync.WaitGroup
	reading.Go(func() { t.read(stop) })
	tb.Cleanup(func() {
		close(stop)
		reading.Wait()
		unix.Close(s)
	})
	return t
}

func (t *tap) read(stop <-chan struct{}) {
	packet := make([]byte, 128)
	for {
		select {
		case <-stop:
			return
		default:
		}
		n, from, err := unix.Recvfrom(t.socket, packet, 0)
		if err != nil {
			continue
		}
		link, ok := from.(*unix.SockaddrLinklayer)
		if !ok || link.Pkttype != unix.PACKET_OUTGOING { // the tap gets each packet twice
			continue
		}
		if to, ok := opens(packet[:n]); ok {
			t.mu.Lock()
			t.seen = append(t.seen, to)
			t.mu.Unlock()
		}
	}
}

// opens reads an IP packet. If the packet opens a TCP connection, or is a datagram that is not for
// the DNS, opens returns its destination.
func opens(packet []byte) (to netip.AddrPort, ok bool) {
	if len(packet) < 20 {
		return to, false
	}
	var from, dest netip.Addr
	var protocol byte
	var rest []byte
	switch packet[0] >> 4 {
	case 4:
		from, _ = netip.AddrFromSlice(packet[12:16])
		dest, _ = netip.AddrFromSlice(packet[16:20])
		protocol, rest = packet[9], packet[min(len(packet), int(packet[0]&0xf)*4):]
	case 6:
		if len(packet) < 40 {
			return to, false
		}
		from, _ = netip.AddrFromSlice(packet[8:24])
		dest, _ = netip.AddrFromSlice(packet[24:40])
		protocol, rest = packet[6], packet[40:]
	}
	if len(rest) < 4 || from == Home {
		return to, false
	}
	to = netip.AddrPortFrom(dest, uint16(rest[2])<<8|uint16(rest[3]))
	const syn, ack = 1 << 1, 1 << 4
	switch protocol {
	case unix.IPPROTO_TCP:
		return to, len(rest) > 13 && rest[13]&(syn|ack) == syn
	case unix.IPPROTO_UDP:
		dns := netip.MustParseAddrPort(nameServer)
		answer := from == dns.Addr() && uint16(rest[0])<<8|uint16(rest[1]) == dns.Port()
		return to, to != dns && !answer
	}
	return to, false
}

// take returns the addresses since the last call.
func (t *tap) take() []netip.AddrPort {
	t.mu.Lock()
	defer t.mu.Unlock()
	seen := t.seen
	t.seen = nil
	return seen
}

// lost returns how many packets were dropped, because they came faster than they were read.
func (t *tap) lost(tb testing.TB) uint32 {
	tb.Helper()
	stats, err := unix.GetsockoptTpacketStats(t.socket, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		tb.Fatalf("read the tap's statistics: %v", err)
	}
	return stats.Drops
}
