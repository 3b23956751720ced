package postrider

import "time"

// Timing says how the time of an attempt was spent. A part that did not happen is 0. If the attempt
// failed during a part, that part has the time until the failure. If the attempt followed
// redirects, each part has the sum over all requests. The sender measures it.
type Timing struct {
	DNS       time.Duration // lookup of the host name
	Connect   time.Duration // TCP connection, also by way of the operator's proxy; includes all addresses that were tried
	TLS       time.Duration // TLS handshake
	FirstByte time.Duration // from sending the request to the first byte of the response
	Reused    bool          // whether the request used a connection that was already open
}

// Rest returns the part of the duration that no field has: the time for the response after its
// first byte, and for work before the connection, such as fetching an OAuth token.
func (t Timing) Rest(duration time.Duration) time.Duration {
	return max(duration-t.DNS-t.Connect-t.TLS-t.FirstByte, 0)
}
