package cluster

import (
	"context"
	"errors"
	"time"

	"github.com/rejoin-mcp/rejoin/eventstore"
)

// TombstoneTTL is how long the directory remembers that a session has ended.
const TombstoneTTL = 10 * time.Minute

// Directory keeps the records of sessions and the entries of processes. It is safe for concurrent use. Each method but Renew and Touch
// is one atomic step.
//
// Every method may be repeated with the same arguments, which does no harm: a call whose answer was lost is made again. If the context
// has ended before the call, a method returns its error and does nothing. After any error that is not one of those at the method, or
// the end of the context, the operation may or may not have been done.
//
// Strings are any bytes. A method changes no byte slice that it was given, and nobody changes one afterwards: the directory may keep
// it. The same goes for those that it returns. A ttl and a lease are positive.
type Directory interface {
	// Join registers p as the newest process with its Self, and returns its entry. An older process with that Self is superseded,
	// alive or not.
	//
	// lease: how long the entry must be kept after its last renewal, at least. Keep it for several times that. Its expiry proves
	// nothing to anybody; it exists so that entries do not pile up.
	//
	// Repeated while p is the newest: the same generation again. If another process with that Self has joined in between, p
	// supersedes that one.
	Join(ctx context.Context, p Process, lease time.Duration) (Member, error)
	// Renew writes m.Count to the entry of the process, and returns all members. The caller gives a higher count each time, from 1
	// on. A count that is not higher than the one that stands is a late or repeated call: it extends the entry's life, and changes
	// nothing else.
	//
	// An entry that is missing, or of a lower generation, is replaced by m: the engine has lost what stood there. Left is never taken
	// back: the entry has left if m or the entry says so.
	//
	// ErrSuperseded: there is an entry of a higher generation, or one of the same generation with another incarnation. The process is
	// to end all sessions on its side.
	//
	// Writing is one step; the members may be read after it, one by one.
	Renew(ctx context.Context, m Member, lease time.Duration) (View, error)
	// Leave marks the entry as left. If the process was superseded or has no entry, there is nothing to do: nil.
	Leave(ctx context.Context, m Member) error

	// Put writes the record of a session that the caller owns: that of a new session (Epoch 1), or one that the engine has lost. Where
	// there is no record, r becomes the record, and the session has no logs. If there is one with the same fence, Format, About and
	// State are replaced; its logs stay. r.Released is ignored: a record that Put makes is not released, and one that is stays so.
	//
	// The record lives for ttl from now on, and its logs as long.
	//
	// ErrFenced: there is a record with another fence, lower or higher. ErrEnded: there is a tombstone.
	Put(ctx context.Context, r *Record, ttl time.Duration) error
	// Find returns the record of a session. Count in the answer is the count of the process by, as it stands when the record was
	// looked up, or later.
	//
	// ErrUnknown: there is no record and no tombstone. That alone does not say that there never was one: the engine may have gone
	// back. It has not if Count is not lower than what by last wrote, and if no renewal of by was under way during the call. (Such a
	// renewal may have written the count anew after the engine went back. The renewal's own answer, View.Was, tells.)
	// ErrEnded: there is a tombstone.
	Find(ctx context.Context, session string, by Process) (Found, error)
	// Adopt makes the process to the owner, if the record still has the fence from. The fence becomes {to.Incarnation, from.Epoch+1},
	// Self that of to, and Released false. The record lives for ttl from now on. Adopt does not ask whether the old owner is dead.
	//
	// It returns the record as it is then, and the session's logs in the order in which they were begun. Both are of one step: no
	// event, drop, state or end of the old owner takes effect later. Logs without events are among them. A sealed log whose events
	// were all evicted may be missing.
	//
	// If the record has exactly the fence that this call would give, it is a repeat: it changes nothing but the life of the record,
	// and returns what stands now.
	//
	// ErrFenced: the record has another fence; somebody else was faster. ErrUnknown: there is no record. ErrEnded: there is a
	// tombstone.
	Adopt(ctx context.Context, session string, from eventstore.Fence, to Process, ttl time.Duration) (*Record, []Stream, error)

	// Save replaces the state in the record. ErrFenced, ErrUnknown (the engine has lost the record), ErrEnded.
	Save(ctx context.Context, session string, fence eventstore.Fence, state []byte) error
	// Touch extends the lives of records to ttl from now on. Those that are unknown, ended, or have another fence are left alone;
	// that is no error. Each record is a step of its own.
	Touch(ctx context.Context, held []Held, ttl time.Duration) error
	// Release marks the record as released. It is the last thing that an owner does with a session that it lets go. The fence stays
	// the owner's until somebody adopts, so nothing stops the owner from writing; it must not.
	//
	// ErrFenced, ErrUnknown, ErrEnded. A repeat may find that somebody has adopted the session meanwhile: ErrFenced.
	Release(ctx context.Context, session string, fence eventstore.Fence) error
	// End deletes the record and the logs, and leaves a tombstone for TombstoneTTL. A session without a record gets a tombstone too.
	// From then on operations on the session return ErrEnded, and those on its logs eventstore.ErrGone.
	//
	// ErrFenced: the record has another fence. Ended already: nil, whatever the fence.
	End(ctx context.Context, session string, fence eventstore.Fence) error
}

// Errors may come wrapped; compare with errors.Is. [eventstore.ErrFenced] says that the record has another fence: another process owns
// the session. [eventstore.ErrClosed] says that the directory was closed, with its store.
var (
	// ErrUnknown says that the directory has no record of the session, and no tombstone.
	ErrUnknown = errors.New("cluster: no record of the session")
	// ErrEnded says that the session has ended. The directory has proof: a tombstone.
	ErrEnded = errors.New("cluster: session ended")
	// ErrSuperseded says that a newer process has joined with the same Self.
	ErrSuperseded = errors.New("cluster: superseded by a newer process")
)
