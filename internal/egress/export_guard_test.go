package egress

import (
	"context"
	"net/netip"
)

// Allows reports whether connections to the address may be made.
func (e *Egress) Allows(ip netip.Addr) bool { return e.guard.allows(ip) }

// Control is the guard's check before each connection.
func (e *Egress) Control(ctx context.Context, network, address string) error {
	return e.guard.control(ctx, network, address, nil)
}

// Check is the guard's check before each connection that a proxy makes.
func (e *Egress) Check(address string) error { return e.guard.check(address) }

// Address returns the address that is dialed for a URL.
func (e *Egress) Address(raw string) (string, error) {
	u, err := e.guard.parse(raw)
	if err != nil {
		return "", err
	}
	return ServerOf(u, nil).Address, nil
}
