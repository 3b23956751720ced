package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"slices"
	"syscall"

	"github.com/postrider/postrider"
)

// FailureOf returns the failure that an attempt records for an error of [Egress.RoundTrip] or
// [Egress.ClientTLS]. sent says whether a byte of the request was written; if so, the server may
// have the event. The same system error has a different meaning before and after that byte. A reset
// is a refused connection before it, and a cut response after it.
func FailureOf(err error, sent bool) postrider.Failure {
	if f, ok := errors.AsType[*postrider.FailureError](err); ok {
		return f.Failure
	}
	switch {
	case !sent:
		return connectFailure(err)
	// From here on the server may have the event. Only failures that the owner of an endpoint can
	// act on get their own kind.
	case errors.Is(err, errMalformed):
		return postrider.FailureBadResponse
	case isAlert(err):
		return postrider.FailureTLSRefused
	}
	return postrider.FailureCut
}

// TimedOut reports whether the error is a time-out: of the context, of one address, or of the
// operating system.
func TimedOut(err error) bool {
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

// lookupError returns the failure of a DNS lookup.
func lookupError(err error) *postrider.FailureError {
	var dns *net.DNSError
	f, classified := errors.AsType[*postrider.FailureError](err)
	switch {
	case classified:
		return f
	case TimedOut(err):
		return &postrider.FailureError{Failure: postrider.FailureDNSTimeout, Err: err}
	case errors.As(err, &dns) && dns.IsNotFound:
		return &postrider.FailureError{Failure: postrider.FailureDNSNotFound, Err: err}
	}
	return &postrider.FailureError{Failure: postrider.FailureDNS, Err: err}
}

// connectError returns the failure of connecting to an address. If a deeper layer has classified
// the error already, its failure is kept.
func connectError(err error) *postrider.FailureError {
	if f, ok := errors.AsType[*postrider.FailureError](err); ok {
		return f
	}
	return &postrider.FailureError{Failure: connectFailure(err), Err: err}
}

// connectFailure classifies the error of a connection that was not made, or that ended before a
// byte of the request was written. It compares only the codes of system errors, never their texts.
func connectFailure(err error) postrider.Failure {
	is := func(codes ...syscall.Errno) bool { return isErrno(err, codes...) }
	switch {
	case errors.Is(err, errForbidden):
		return postrider.FailureForbidden
	case serverFailure(err) != "":
		return serverFailure(err)
	case TimedOut(err):
		return postrider.FailureConnectTimeout
	case is(syscall.ECONNREFUSED):
		return postrider.FailureRefused
	case is(syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.EHOSTDOWN, syscall.ENETDOWN, syscall.EAFNOSUPPORT):
		return postrider.FailureNoRoute
	case is(syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE), errors.Is(err, io.EOF):
		return postrider.FailureReset
	}
	return postrider.FailureConnect
}

// isErrno reports whether err is a system error with one of the codes.
func isErrno(err error, codes ...syscall.Errno) bool {
	return slices.ContainsFunc(codes, func(code syscall.Errno) bool { return errors.Is(err, code) })
}

// serverFailure returns the failure for a resource that this machine lacks, if err has that cause.
// Otherwise it returns "". EADDRNOTAVAIL is also the error of an address that this machine has no
// route to; [dialer.connectTo] tells the two cases apart.
func serverFailure(err error) postrider.Failure {
	switch {
	case isErrno(err, syscall.EMFILE, syscall.ENFILE):
		return postrider.FailureDescriptors
	case isErrno(err, syscall.EADDRNOTAVAIL):
		return postrider.FailurePorts
	case isErrno(err, syscall.ENOBUFS, syscall.ENOMEM):
		return postrider.FailureMemory
	}
	return ""
}

// handshakeError returns the failure of a TLS handshake.
func handshakeError(err error) *postrider.FailureError {
	var (
		name         x509.HostnameError
		authority    x509.UnknownAuthorityError
		invalid      x509.CertificateInvalidError
		verification *tls.CertificateVerificationError
	)
	failure := postrider.FailureTLS
	switch {
	case serverFailure(err) != "":
		failure = serverFailure(err)
	case errors.As(err, &name):
		failure = postrider.FailureTLSName
	case errors.As(err, &authority):
		failure = postrider.FailureTLSAuthority
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		failure = postrider.FailureTLSExpired
	case errors.As(err, &verification):
		failure = postrider.FailureTLSCertificate
	case isAlert(err):
		failure = postrider.FailureTLSRefused
	case TimedOut(err):
		failure = postrider.FailureTLSTimeout
	}
	return &postrider.FailureError{Failure: failure, Err: err}
}
