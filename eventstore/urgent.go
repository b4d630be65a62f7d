package eventstore

import "context"

type urgentKey struct{}

// ContextWithUrgency marks an Append as urgent: something waits for its event, as for a question to the client. A store may keep a
// reserve for such events, so that other events do not crowd them out. A store that wraps another one must pass the context on.
func ContextWithUrgency(ctx context.Context) context.Context {
	return context.WithValue(ctx, urgentKey{}, true)
}

// IsUrgent reports whether ctx was marked by ContextWithUrgency.
func IsUrgent(ctx context.Context) bool { return ctx.Value(urgentKey{}) != nil }
