package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"syscall"

	"github.com/postrider/postrider"
)

// stageError says at which stage before sending an attempt failed.
type stageError struct {
	failure postrider.Failure
	err     error
}

// Error says the failure and its cause.
func (e *stageError) Error() string { return string(e.failure) + ": " + e.err.Error() }

// Unwrap returns the cause.
func (e *stageError) Unwrap() error { return e.err }

// lookupError returns the failure of a DNS lookup.
func lookupError(err error) *stageError {
	var dns *net.DNSError
	switch {
	case late(err):
		return &stageError{postrider.FailureDNSTimeout, err}
	case errors.As(err, &dns) && dns.IsNotFound:
		return &stageError{postrider.FailureDNSNotFound, err}
	}
	return &stageError{postrider.FailureDNS, err}
}

// connectError returns the failure of connecting to an address. One that a
// deeper layer has classified stays what it is.
func connectError(err error) *stageError {
	if s, ok := errors.AsType[*stageError](err); ok {
		return s
	}
	if errors.Is(err, errForbidden) {
		return &stageError{postrider.FailureForbidden, err}
	}
	return &stageError{connectFailure(err), err}
}

func connectFailure(err error) postrider.Failure {
	is := func(codes ...syscall.Errno) bool {
		for _, code := range codes {
			if errors.Is(err, code) {
				return true
			}
		}
		return false
	}
	switch {
	case late(err):
		return postrider.FailureConnectTimeout
	case is(syscall.ECONNREFUSED):
		return postrider.FailureRefused
	case is(syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.EHOSTDOWN, syscall.ENETDOWN, syscall.EADDRNOTAVAIL, syscall.EAFNOSUPPORT):
		return postrider.FailureNoRoute
	case is(syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE), errors.Is(err, io.EOF):
		return postrider.FailureReset
	}
	return postrider.FailureConnect
}

// handshakeError returns the failure of a TLS handshake.
func handshakeError(err error) *stageError {
	var (
		name         x509.HostnameError
		authority    x509.UnknownAuthorityError
		invalid      x509.CertificateInvalidError
		verification *tls.CertificateVerificationError
	)
	failure := postrider.FailureTLS
	switch {
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
	case late(err):
		failure = postrider.FailureTLSTimeout
	}
	return &stageError{failure, err}
}

// late reports whether the error is that a time has passed: the attempt's, an
// address's share of it, or the operating system's.
func late(err error) bool {
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}
