package gosdk

import (
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/rejoin-mcp/rejoin/bridge/internal/bounds"
)

// The SDK reads without a limit and handles notifications one by one. So if a handler blocks, all later notifications wait in the SDK's queue.
// The SDK does not report that it has handled a notification, but it starts a request only after it has handled all earlier notifications.
// So the bridge sends it a marker: a request of an unknown method. When the SDK answers the marker, it has handled all notifications before it.
const (
	markerCount = bounds.Notes / 16    // a marker follows so many notifications,
	markerBytes = bounds.NoteBytes / 4 // or so many bytes of them,
	largeBytes  = 4 << 10              // or one that is larger than this, which is cleared when the marker is answered

	markerID = "marker" // ids of calls have a dot
)

// group is some of the notifications that the SDK has.
type group struct {
	count, bytes int
	large        []*jsonrpc.Request // those larger than largeBytes
}

// backlog is the notifications that the SDK may not have handled yet.
type backlog struct {
	marked     group // before the marker
	unmarked   group // after it
	markerSent bool  // and not answered
	warned     bool  // the log says that a notification was dropped
}

// admit reports whether there is room for a notification, and whether it is the first without room. There is always room while no marker is
// sent: fewer are unmarked then than a marker follows.
func (b *backlog) admit(size int) (ok, first bool) {
	if b.marked.count+b.unmarked.count >= bounds.Notes || b.marked.bytes+b.unmarked.bytes >= bounds.NoteBytes {
		first, b.warned = !b.warned, true
		return false, first
	}
	b.unmarked.count++
	b.unmarked.bytes += size
	return true, false
}

// mark reports whether a marker must be sent now. The caller then sends it.
func (b *backlog) mark() bool {
	if b.markerSent || b.unmarked.count < markerCount && b.unmarked.bytes < markerBytes && len(b.unmarked.large) == 0 {
		return false
	}
	b.marked, b.unmarked, b.markerSent = b.unmarked, group{}, true
	return true
}

// markerAnswered notes that the SDK has answered the marker.
func (b *backlog) markerAnswered() {
	for _, m := range b.marked.large {
		clearMessage(m)
	}
	b.marked, b.markerSent = group{}, false
}

// clearMessage removes what the SDK does not need any more of a handled message. The SDK's queue keeps the last message until the next one
// comes, and with it the body of an HTTP request, the header and the call.
func clearMessage(m *jsonrpc.Request) { m.Params, m.Extra = nil, nil }

// sendMarker sends a marker if it is time for one. The caller holds s.mu.
func (s *session) sendMarker() {
	if s.backlog.mark() {
		s.enqueue(&jsonrpc.Request{ID: makeID(markerID), Method: "rejoin/marker"})
	}
}
