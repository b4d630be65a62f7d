package gosdk

import (
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// The SDK reads without a bound and handles notifications one by one, so that one handler that blocks lets all that follow pile
// up. It never says that it has handled one. But it begins nothing before it has handled the notifications that came earlier, so a
// request of ours, of a method that nobody has, tells by its answer how far it is.
const (
	maxNotes     = 1024    // notifications of a session that wait for their handlers
	maxNoteBytes = 4 << 20 // in those; the last may exceed it
	fenceNotes   = maxNotes / 16
	fenceBytes   = maxNoteBytes / 4
	maxStale     = 1024 // calls that have ended and whose handlers have not returned

	fenceID = "fence" // no call's: theirs have a dot
)

// pile is a number of notifications.
type pile struct{ count, bytes int }

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
	if b.fenced.count+b.open.count >= maxNotes || b.fenced.bytes+b.open.bytes >= maxNoteBytes {
		first, b.told = !b.told, true
		return false, first
	}
	b.open.count++
	b.open.bytes += size
	return true, false
}

// due reports whether a fence is to be set, which it then is.
func (b *backlog) due() bool {
	if b.set || b.open.count < fenceNotes && b.open.bytes < fenceBytes {
		return false
	}
	b.fenced, b.open, b.set = b.open, pile{}, true
	return true
}

// handled tells that the SDK has come to the fence.
func (b *backlog) handled() { b.fenced, b.set = pile{}, false }

// fence sets one if it is due. With the lock.
func (c *session) fence() {
	if c.notes.due() {
		c.push(&jsonrpc.Request{ID: makeID(fenceID), Method: "rejoin/fence"})
	}
}
