package postrider

import "slices"

// Failure classifies why an attempt failed. [Attempt].Error begins with a Failure; a colon and a
// detail may follow. docs/operate/endpoints.md says what each means.
type Failure string

// The failures. The owner of an endpoint may see them, so they reveal nothing of the platform's
// network. They contain no address, and every refusal of the egress guard is [FailureForbidden],
// whatever its reason.
const (
	FailureForbidden      Failure = "target_forbidden"
	FailureDNSNotFound    Failure = "dns_not_found"
	FailureDNSTimeout     Failure = "dns_timeout"
	FailureDNS            Failure = "dns_failed"
	FailureRefused        Failure = "connection_refused"
	FailureNoRoute        Failure = "no_route"
	FailureReset          Failure = "connection_reset"
	FailureConnectTimeout Failure = "connect_timeout"
	FailureConnect        Failure = "connect_failed"
	FailureProxy          Failure = "proxy_error"
	FailureTLSExpired     Failure = "tls_expired"
	FailureTLSName        Failure = "tls_wrong_name"
	FailureTLSAuthority   Failure = "tls_unknown_authority"
	FailureTLSCertificate Failure = "tls_bad_certificate"
	FailureTLSRefused     Failure = "tls_refused"
	FailureTLSTimeout     Failure = "tls_timeout"
	FailureTLS            Failure = "tls_handshake_failed"
	FailureTimeout        Failure = "timeout"
	FailureCut            Failure = "connection_cut"
	FailureBadResponse    Failure = "bad_response"
	FailureStatus         Failure = "http_status"
	FailureRedirect       Failure = "redirect"
	FailureDowngrade      Failure = "tls_downgrade"
	FailureAuth           Failure = "auth_error"
	FailureTokenRefused   Failure = "token_refused"
	FailureHeaders        Failure = "invalid_headers"
	FailureOwnTLS         Failure = "invalid_tls"
	FailureUnsigned       Failure = "no_active_secret"
	FailureNoKey          Failure = "no_key_for_scheme"
	FailureCanceled       Failure = "canceled"
	FailureInternal       Failure = "internal"
	FailureServerDied     Failure = "server_died"
)

// Failures lists every failure.
var Failures = []Failure{
	FailureForbidden,
	FailureDNSNotFound, FailureDNSTimeout, FailureDNS,
	FailureRefused, FailureNoRoute, FailureReset, FailureConnectTimeout, FailureConnect, FailureProxy,
	FailureTLSExpired, FailureTLSName, FailureTLSAuthority, FailureTLSCertificate, FailureTLSRefused, FailureTLSTimeout, FailureTLS,
	FailureTimeout, FailureCut, FailureBadResponse, FailureStatus, FailureRedirect, FailureDowngrade,
	FailureAuth, FailureTokenRefused, FailureHeaders, FailureOwnTLS, FailureUnsigned, FailureNoKey,
	FailureCanceled, FailureInternal, FailureServerDied,
}

// The failures of this server. They are no fault of the endpoint. An attempt that one of them
// prevents is [OutcomePostponed] and is not recorded. docs/operate/endpoints.md says what each
// means.
const (
	// This process, or this machine, has reached its limit of open files.
	FailureDescriptors Failure = "out_of_descriptors"
	FailurePorts       Failure = "out_of_ports"       // no local port is left for the address
	FailureMemory      Failure = "out_of_memory"      // the kernel has no memory for a socket
	FailureSecrets     Failure = "secret_unavailable" // a stored secret or credential cannot be decrypted
)

// ServerFailures lists every failure of this server.
var ServerFailures = []Failure{FailureDescriptors, FailurePorts, FailureMemory, FailureSecrets}

// IsServers reports whether the failure is one of [ServerFailures].
func (f Failure) IsServers() bool { return slices.Contains(ServerFailures, f) }

// FailureError is an error that ended an attempt. Failure is what the attempt records. Err is for
// operators: it may contain an address.
type FailureError struct {
	Failure Failure
	Err     error
}

// Error returns the failure and its cause.
func (e *FailureError) Error() string { return string(e.Failure) + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *FailureError) Unwrap() error { return e.Err }
