package eventstore

import "context"

type urgentKey struct{}

// ContextWithUrgency marks an Append as one that somebody waits for, such as a question to the client. A store may keep a reserve for such
// events, so that others do not crowd them out. Stores that wrap others hand the context on as it is.
func ContextWithUrgency(ctx context.Context) context.Context {
	return context.WithValue(ctx, urgentKey{}, true)
}

// IsUrgent reports whether ctx is marked.
func IsUrgent(ctx context.Context) bool { return ctx.Value(urgentKey{}) != nil }
