package testkit

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Internet is a network in which this machine has every address of IPv4 and of IPv6. So a program
// reaches this machine at any address that it dials: metadata services, private networks and public
// receivers.
//
//   - Each of the ports accepts connections to any address.
//   - A tap on the wire also sees every packet that opens a connection, even one to
//     a port on which nothing listens.
//   - /etc/resolv.conf names the DNS of this network and a search domain in
//     which every name exists; /etc/hosts has only localhost.
//
// It needs a process of its own: see [Alone].
type Internet struct {
	DNS *DNS

	tap *tap
}

// The addresses of an [Internet].
var (
	Home    = netip.MustParseAddr("10.66.6.6")     // tests connect from it: the tap does not count it
	Public  = netip.MustParseAddr("93.184.216.34") // like the address of any receiver
	Public6 = netip.MustParseAddr("2606:4700::1111")
	Own     = netip.MustParseAddr("93.184.216.99") // public, and on the interface of this machine
)

// SearchDomain is the domain that resolvers add to names of one label.
const SearchDomain = "search.rig.example."

const nameServer = "127.0.0.53:53"

// NewInternet makes the network of this process an [Internet] with the zone. It calls serve for
// each connection to the ports, in a goroutine of its own, and closes the connection afterwards.
func NewInternet(tb testing.TB, zone Zone, ports []int, serve func(net.Conn)) *Internet {
	tb.Helper()
	if err := errors.Join(bringUp(), giveAddress(Own), routeEverything(unix.AF_INET), routeEverything(unix.AF_INET6)); err != nil {
		tb.Fatalf("set the network up: %v", err)
	}
	mount(tb, "/etc/resolv.conf", "nameserver 127.0.0.53\nsearch "+SearchDomain+"\noptions timeout:5\n")
	mount(tb, "/etc/hosts", "127.0.0.1 localhost ip6-localhost\n::1 localhost ip6-localhost\n")
	n := &Internet{DNS: NewDNS(tb, nameServer, zone), tap: newTap(tb)}
	for _, port := range ports {
		listener, err := net.Listen("tcp", ":"+strconv.Itoa(port))
		if err != nil {
			tb.Fatalf("listen on port %d: %v", port, err)
		}
		var serving sync.WaitGroup
		serving.Go(func() { serveAll(listener, serve, &serving) })
		tb.Cleanup(func() {
			listener.Close()
			serving.Wait()
		})
	}
	return n
}

func serveAll(listener net.Listener, serve func(net.Conn), serving *sync.WaitGroup) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		serving.Go(func() {
			defer conn.Close()
			serve(conn)
		})
	}
}

// Dialer returns a dialer that connects from [Home], which the tap does not count.
func (n *Internet) Dialer() *net.Dialer {
	return &net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(Home, 0))}
}

// Connections waits until the tap has seen all packets that were sent so far. It returns the
// addresses to which connections were opened since the last call.
func (n *Internet) Connections(tb testing.TB) []netip.AddrPort {
	tb.Helper()
	// A connection made here marks the present position on the wire.
	mark := netip.AddrPortFrom(netip.MustParseAddr("127.66.6.6"), 1)
	conn, err := new(net.Dialer).DialContext(tb.Context(), "tcp", mark.String())
	if err == nil {
		conn.Close()
	}
	var seen []netip.AddrPort
	Eventually(tb, "the tap sees its mark", func() bool {
		seen = append(seen, n.tap.take()...)
		return slices.Contains(seen, mark)
	})
	if lost := n.tap.lost(tb); lost > 0 {
		tb.Fatalf("the tap lost %d packets", lost)
	}
	return slices.DeleteFunc(seen, func(to netip.AddrPort) bool { return to == mark })
}

// Reaches reports whether this process can connect to the address. With it, a test shows that a tap
// that saw nothing could have seen something.
func (n *Internet) Reaches(ctx context.Context, to netip.AddrPort) bool {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", to.String())
	if err != nil {
		return false
	}
	return conn.Close() == nil
}

// mount puts a file with the text over another file.
func mount(tb testing.TB, over, text string) {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), filepath.Base(over))
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		tb.Fatal(err)
	}
	if err := unix.Mount(file, over, "", unix.MS_BIND, ""); err != nil {
		tb.Fatalf("mount over %s: %v", over, err)
	}
	tb.Cleanup(func() {
		if err := unix.Unmount(over, 0); err != nil {
			tb.Errorf("unmount %s: %v", over, err)
		}
	})
}

// bringUp starts the loopback interface.
func bringUp() error {
	r, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return control(unix.SIOCSIFFLAGS, r)
}

// giveAddress puts an IPv4 address on the loopback interface.
func giveAddress(ip netip.Addr) error {
	r, err := unix.NewIfreq("lo:0")
	if err != nil {
		return err
	}
	if err := r.SetInet4Addr(ip.AsSlice()); err != nil {
		return err
	}
	return control(unix.SIOCSIFADDR, r)
}

func control(request uint, r *unix.Ifreq) error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return errors.Join(unix.IoctlIfreq(s, request, r), unix.Close(s))
}

// routeEverything makes all addresses of the family local, as "ip route add local default dev lo
// table local" does.
func routeEverything(family uint8) error {
	s, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		return err
	}
	type message struct {
		head  unix.NlMsghdr
		route unix.RtMsg
		oif   unix.RtAttr
		index uint32
	}
	m := message{
		head: unix.NlMsghdr{Type: unix.RTM_NEWROUTE, Flags: unix.NLM_F_REQUEST | unix.NLM_F_ACK | unix.NLM_F_CREATE},
		route: unix.RtMsg{
			Family: family, Table: unix.RT_TABLE_LOCAL, Protocol: unix.RTPROT_STATIC, Scope: unix.RT_SCOPE_HOST, Type: unix.RTN_LOCAL,
		},
		oif:   unix.RtAttr{Len: unix.SizeofRtAttr + 4, Type: unix.RTA_OIF},
		index: uint32(lo.Index),
	}
	m.head.Len = uint32(unsafe.Sizeof(m))
	if err := unix.Sendto(s, unsafe.Slice((*byte)(unsafe.Pointer(&m)), unsafe.Sizeof(m)), 0,
		&unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(s, answer, 0)
	if err != nil || n < unix.SizeofNlMsghdr+4 {
		return errors.Join(errors.New("read the kernel's answer"), err)
	}
	if code := *(*int32)(unsafe.Pointer(&answer[unix.SizeofNlMsghdr])); code != 0 {
		return unix.Errno(-code)
	}
	return nil
}
