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
// Every method may be repeated with the same arguments, which does no harm: a call whose answer was lost is made again. A call that was
// given up may also take effect later, after other calls; that does no harm either. If the context
// has ended before the call, a method returns its error and does nothing. After any error that is not one of those at the method, or
// the end of the context, the operation may or may not have been done.
//
// Strings are any bytes. A method changes no byte slice that it was given, and its caller does not change one afterwards: the directory may keep
// it. The same goes for those that it returns. A ttl and a lease are positive. Generations, counts and versions are lower than 1<<53;
// the epoch of a fence may be any number.
type Directory interface {
	// Join registers m as the newest process with its Self, and returns its entry, with Count 0 and not Left, whatever m says. The
	// process with that Self that was the newest so far is superseded, alive or not.
	//
	// m.Generation must be higher than the one that stands there. Otherwise Join changes nothing and returns ErrSuperseded together
	// with the entry that stands. The process may then try again with a generation that is higher. So a Join that arrives after
	// another process has taken its place supersedes no process.
	//
	// If the same incarnation stands there with the same generation, it is a repeat: it extends the entry's life, and returns the
	// entry as it stands.
	//
	// lease: how long the entry must be kept after its last renewal, at least. Keep it for several times that. Its expiry proves
	// nothing to anybody; it exists so that entries do not pile up.
	Join(ctx context.Context, m Member, lease time.Duration) (Member, error)
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
	// there is no record, r becomes the record, and the session has no logs. If there is one with the same fence, Format and About
	// are replaced, and State and Version too, unless r.Version is lower than the one that stands; its logs stay. Self and Generation
	// are those of the owner, the same each time. r.Released is ignored: a record that Put makes is not released, and one that is
	// stays so.
	//
	// The record lives for ttl from now on, and its logs as long.
	//
	// ErrFenced: there is a record with another fence, lower or higher. ErrEnded: there is a tombstone.
	Put(ctx context.Context, r *Record, ttl time.Duration) error
	// Find returns the record of a session. Count in the answer is the count of the process by. Count and Age are as they stand when
	// the record was looked up, or later.
	//
	// ErrUnknown: there is no record and no tombstone. That alone does not say that there never was one: the engine may have lost it.
	// It has not lost it since by renewed last, if Count is not lower than what by last wrote, and if no renewal of by was under way
	// during the call. (Such a renewal may have written the count anew after the engine went back. The renewal's own answer,
	// View.Was, tells.) And it has lost nothing before that which is not restored by now, if Age is longer than owners take to notice
	// a loss and to restore their records.
	// ErrEnded: there is a tombstone.
	Find(ctx context.Context, session string, by Process) (Found, error)
	// Adopt makes the process to the owner, if the record still has the fence from. The fence becomes {to.Incarnation, from.Epoch+1},
	// Self and Generation those of to, and Released false. State and Version stay: the new owner's first state has a higher version.
	// The record lives for ttl from now on. Adopt does not ask whether the old owner is dead, or whether to has an entry.
	//
	// It returns the record as it is then, and the session's logs in the order in which they were begun. Both are of one step: no
	// event, drop, state or end of the old owner takes effect later. Logs without events are among them. A sealed log whose events
	// were all evicted may be missing.
	//
	// If the record has exactly the fence that this call would give, it is a repeat: it changes nothing but the life of the record,
	// and returns what stands now.
	//
	// ErrFenced: the record has another fence; another process was faster. ErrUnknown: there is no record. ErrEnded: there is a
	// tombstone.
	Adopt(ctx context.Context, session string, from eventstore.Fence, to Member, ttl time.Duration) (*Record, []Stream, error)

	// Save replaces State and Version in the record, if version is higher than the one that stands. If it is not, the call is late or
	// repeated: it changes nothing, and returns nil. Either way nil says that fence is the owner's.
	//
	// ErrFenced, ErrUnknown (the engine has lost the record), ErrEnded.
	Save(ctx context.Context, session string, fence eventstore.Fence, version uint64, state []byte) error
	// Touch extends the lives of records to ttl from now on. Those that are unknown, ended, or have another fence are left alone, and
	// returned, in the order in which they were given. Each record is a step of its own.
	Touch(ctx context.Context, held []Held, ttl time.Duration) (missing []Held, err error)
	// Release marks the record as released. It is the last thing that an owner does with a session that it lets go. The fence stays
	// the owner's until another process adopts, so nothing stops the owner from writing; it must not.
	//
	// ErrFenced, ErrUnknown, ErrEnded. A repeat may find that another process has adopted the session meanwhile: ErrFenced.
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
