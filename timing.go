package postrider

import "time"

// Timing is how the time of an attempt was spent. A part that did not happen is 0; the
// part in which an attempt failed has the time until then. An attempt that followed
// redirects has the sum over its requests. The sender measures it.
type Timing struct {
	DNS       time.Duration // lookup of the host's name
	Connect   time.Duration // TCP connection, by way of the operator's proxy if there is one; all addresses that were tried
	TLS       time.Duration // handshake
	FirstByte time.Duration // from sending the request to the first byte of the response
	Reused    bool          // the request went out on a connection that was open already
}

// Rest returns the rest of the attempt's duration: the time for the response after its
// first byte, and for work before the connection, such as fetching an OAuth token.
func (t Timing) Rest(duration time.Duration) time.Duration {
	return max(duration-t.DNS-t.Connect-t.TLS-t.FirstByte, 0)
}
