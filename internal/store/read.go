package store

import "context"

// readKey is the context key of a request that only reads.
type readKey struct{}

// ForReader marks the context of a request that only reads, from a program or a person. For the
// lists of such requests a store uses separate connections, so that they do not take connections
// from publish requests and the dispatcher. The time of each statement is limited.
func ForReader(ctx context.Context) context.Context {
	return context.WithValue(ctx, readKey{}, true)
}

// IsForReader reports whether the context has the mark of [ForReader].
func IsForReader(ctx context.Context) bool { return ctx.Value(readKey{}) != nil }
