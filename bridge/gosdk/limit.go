package gosdk

import (
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/rejoin-mcp/rejoin/bridge/internal/bounds"
)

// The SDK reads without a bound and handles notifications one by one, so that one handler that blocks lets all that follow pile
// up. It never says that it has handled one. But it begins nothing before it has handled the notifications that came earlier, so a
// request of ours, of a method that nobody has, tells by its answer how far it is.
const (
	fenceNotes = bounds.Notes / 16
	fenceBytes = bounds.NoteBytes / 4
	largeNote  = 4 << 10 // one that is larger has a fence of its own, and is emptied then

	fenceID = "fence" // no call's: theirs have a dot
)

// pile is a number of notifications.
type pile struct {
	count, bytes int
	large        []*jsonrpc.Request // those that are
}

// backlog is what the SDK may not have handled yet.
type backlog struct {
	fenced pile // what a fence was set behind
	open   pile
	set    bool // a fence is on its way
	told   bool // the operator knows that something was dropped
}

// admit reports whether there is room for a notification, and whether it is the first for which there is none. There always is
// while no fence is set: what is open then is less than what a fence takes.
func (b *backlog) admit(size int) (ok, first bool) {
	if b.fenced.count+b.open.count >= bounds.Notes || b.fenced.bytes+b.open.bytes >= bounds.NoteBytes {
		first, b.told = !b.told, true
		return false, first
	}
	b.open.count++
	b.open.bytes += size
	return true, false
}

// due reports whether a fence is to be set, which it then is.
func (b *backlog) due() bool {
	if b.set || b.open.count < fenceNotes && b.open.bytes < fenceBytes && len(b.open.large) == 0 {
		return false
	}
	b.fenced, b.open, b.set = b.open, pile{}, true
	return true
}

// handled tells that the SDK has come to the fence.
func (b *backlog) handled() {
	for _, m := range b.fenced.large {
		empty(m)
	}
	b.fenced, b.set = pile{}, false
}

// empty takes from a message what the SDK has no use for any more: its queue holds on to the last message as long as nothing comes, and with it
// to the body of an HTTP request, its header and its call.
func empty(m *jsonrpc.Request) { m.Params, m.Extra = nil, nil }

// fence sets one if it is due. With the lock.
func (c *session) fence() {
	if c.notes.due() {
		c.push(&jsonrpc.Request{ID: makeID(fenceID), Method: "rejoin/fence"})
	}
}
