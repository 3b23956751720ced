package peers

import "crypto/tls"

// Protocol is the name of the form of the messages.
const Protocol = protocol

// Config returns the settings of the node's connections.
func (p *Peers) Config(known func(hash [32]byte) bool) *tls.Config { return p.identity.config(known) }
