package egress

import (
	"context"
	"net/netip"
)

// Allows reports whether connections to the address may be made.
func (e *Egress) Allows(ip netip.Addr) bool { return e.guard.allows(ip) }

// Control is asked before each connection.
func (e *Egress) Control(ctx context.Context, network, address string) error {
	return e.guard.control(ctx, network, address, nil)
}

// Check is asked before each connection that a proxy makes for us.
func (e *Egress) Check(address string) error { return e.guard.check(address) }

// Address returns what is dialled for a URL.
func (e *Egress) Address(raw string) (string, error) {
	u, err := e.guard.parse(raw)
	if err != nil {
		return "", err
	}
	return ServerOf(u, nil).Address, nil
}
