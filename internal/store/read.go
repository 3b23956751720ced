package store

import "context"

// readKey is the context key of a request that only reads.
type readKey struct{}

// ForReader marks the context of a request that only reads, of a program or a person. A store uses
// connections of their own for the lists of such requests: publish requests and the dispatcher do
// not use them. It also limits the time of each statement.
func ForReader(ctx context.Context) context.Context {
	return context.WithValue(ctx, readKey{}, true)
}

// IsForReader reports whether the context is one of ForReader.
func IsForReader(ctx context.Context) bool { return ctx.Value(readKey{}) != nil }
