package member

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

// Record is the record of a session that this process owns. Safe for concurrent use.
type Record struct {
	Key   string
	Fence eventstore.Fence

	dir     cluster.Directory
	owner   cluster.Member
	from    eventstore.Fence // of the owner before; zero: there was none
	ttl     time.Duration
	timeout time.Duration
	state   func() []byte // the state that is to be saved, as it is now
	term    func() uint64 // Member.Term
	moved   func()        // another process owns the session

	host RecordHost

	changed  atomic.Uint64 // changes of the state, those of earlier owners too: its version
	owned    atomic.Uint64 // the term in which the directory has last said that this process owns the session
	recorded atomic.Bool   // the directory has had the record, and the session has not ended
	later    atomic.Bool   // a timer will save the state
	written  atomic.Bool   // the directory may have the record, or had it
	lost     atomic.Bool   // the engine may have lost something of the session
	doubted  atomic.Bool   // it was so once, and perhaps not everything was restored
	known    atomic.Bool   // the directory knows that the session has ended here

	// turn has room for one: who writes the record. It is not a mutex, because a write waits for the directory.
	turn     chan struct{}
	saved    atomic.Uint64 // the changes that the directory has; changed by whose turn it is
	attempts atomic.Uint64 // attempts to save that have failed
	failed   *failedSave   // the last attempt, if it failed; of whose turn it is
	over     atomic.Bool   // nothing is written any more

	format int
	about  []byte // set by Create
}

// RecordConfig is what a Record needs.
type RecordConfig struct {
	Directory cluster.Directory
	Owner     cluster.Member // this process
	Key       string
	Epoch     uint64
	TTL       time.Duration // of the record
	Timeout   time.Duration // of one operation of the directory; 0: none
	State     func() []byte // returns what the app has saved; nil: nothing
	Term      func() uint64 // Member.Term
	Moved     func()        // is called when the directory says that another process owns the session, from any goroutine
	Host      RecordHost
}

// RecordHost is what the records of a process have in common.
type RecordHost interface {
	// Settled says that Record.Unsettled returns false from now on. It is called from any goroutine.
	Settled(key string)
	// Stopped reports whether the process leaves the cluster. Then the end of a session is not tried again.
	Stopped() bool
	// Left reports whether it has left. Then the release of a session is not tried again.
	Left() bool
	// Stands is that of the Member.
	Stands(ctx context.Context) (lost bool, err error)
}

// NewRecord returns a record that the directory does not have yet.
func NewRecord(cfg RecordConfig) *Record {
	return &Record{
		Key: cfg.Key, Fence: eventstore.Fence{Incarnation: cfg.Owner.Incarnation, Epoch: cfg.Epoch},
		turn: make(chan struct{}, 1), dir: cfg.Directory, owner: cfg.Owner, ttl: cfg.TTL, timeout: cfg.Timeout, state: cfg.State,
		term: cfg.Term, moved: cfg.Moved, host: cfg.Host,
	}
}

// Adopted returns a record that the directory has, of a session that was adopted in that term from the owner with the fence from.
func Adopted(cfg RecordConfig, term uint64, from eventstore.Fence, has *cluster.Record) *Record {
	r := NewRecord(cfg)
	r.from = from
	r.format, r.about = has.Format, has.About
	r.changed.Store(has.Version)
	r.saved.Store(has.Version)
	r.written.Store(true)
	r.owned.Store(term)
	r.recorded.Store(true)
	return r
}

// Recorded reports whether the directory has the record, as far as this process knows.
func (r *Record) Recorded() bool { return r.recorded.Load() }

// Create writes the record for the first time.
func (r *Record) Create(format int, about []byte) error {
	if err := r.take(); err != nil {
		return err
	}
	defer r.done()
	r.format, r.about = format, about
	r.written.Store(true)
	err := r.put()
	if err == nil {
		r.recorded.Store(true)
	}
	return err
}

// take takes the turn. It waits no longer than an operation of the directory may take: behind several that time out it would wait for all of them.
func (r *Record) take() error {
	select {
	case r.turn <- struct{}{}:
		return nil
	default:
	}
	var late <-chan time.Time
	if r.timeout > 0 {
		timer := time.NewTimer(r.timeout)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case r.turn <- struct{}{}:
		return nil
	case <-late:
		return context.DeadlineExceeded
	}
}

func (r *Record) done() { <-r.turn }

// put writes the whole record. The turn is the caller's.
func (r *Record) put() error {
	if r.over.Load() {
		return cluster.ErrEnded
	}
	return r.write()
}

// write is put also after the end of the session here.
func (r *Record) write() error {
	term, changed := r.term(), r.changed.Load() // before the state is read
	err := r.do(func(ctx context.Context) error {
		return r.dir.Put(ctx, &cluster.Record{
			Session: r.Key, Fence: r.Fence, Self: r.owner.Self, Generation: r.owner.Generation, Format: r.format, About: r.about, State: r.state(), Version: changed,
		}, r.ttl)
	})
	if err == nil {
		r.saved.Store(changed)
		r.owned.Store(term)
	}
	return err
}

// errNotRecorded says that the record was not written for the first time yet.
var errNotRecorded = errors.New("the session is not in the directory yet")

// Restore writes the whole record again, because the directory may have lost it.
func (r *Record) Restore() error {
	if !r.recorded.Load() {
		return errNotRecorded
	}
	r.doubted.Store(true)
	if err := r.take(); err != nil {
		return err
	}
	err := r.put()
	r.done()
	r.noticeMove(err)
	return err
}

// saveLaterAfter is how long a change of the state waits for a response that saves it.
const saveLaterAfter = 100 * time.Millisecond

// Changed notes that the state has changed. If no Save comes soon, the state is saved without one.
func (r *Record) Changed() {
	r.changed.Add(1)
	if r.recorded.Load() {
		r.saveLater(saveLaterAfter)
	}
}

// saveLater saves after a while, and tries again as long as that fails.
func (r *Record) saveLater(wait time.Duration) {
	if r.later.Swap(true) {
		return
	}
	time.AfterFunc(wait, func() {
		r.later.Store(false)
		if r.saveAgain() != nil && r.recorded.Load() {
			r.saveLater(min(2*wait, 5*time.Second))
		}
	})
}

// Changes returns how often the state has changed.
func (r *Record) Changes() uint64 { return r.changed.Load() }

// Save returns when the directory has all changes of the state, or with the error that kept it from having them, if there was a change since Changes
// returned that number. Older changes are saved without it. It does not call the directory if there is nothing to save, and takes no longer than
// two operations of the directory.
func (r *Record) Save(since uint64) error {
	want, attempt := r.changed.Load(), r.attempts.Load()
	if want == since || r.saved.Load() >= want || !r.recorded.Load() {
		return nil
	}
	err := r.take()
	if err != nil {
		return err
	}
	switch failed := r.failed; {
	case r.saved.Load() >= want, !r.recorded.Load(): // the one before has written it
	case failed != nil && failed.attempt > attempt && failed.upTo >= want: // the one before has tried
		err = failed.err
	default:
		err = r.save()
	}
	r.done()
	r.noticeMove(err)
	return err
}

// saveAgain saves the state if it is not saved, also if a Save has failed.
func (r *Record) saveAgain() error {
	if r.saved.Load() >= r.changed.Load() || !r.recorded.Load() {
		return nil
	}
	err := r.take()
	if err != nil {
		return err
	}
	if r.saved.Load() < r.changed.Load() && r.recorded.Load() {
		err = r.save()
	}
	r.done()
	r.noticeMove(err)
	return err
}

// Owned asks the directory whether this process still owns the session, unless it has asked in this term. nil: it does.
func (r *Record) Owned() error {
	if r.owned.Load() >= r.term() || !r.recorded.Load() {
		return nil
	}
	err := r.take()
	if err != nil {
		return err
	}
	if r.owned.Load() < r.term() && r.recorded.Load() { // else another call has asked
		err = r.save()
	}
	r.done()
	r.noticeMove(err)
	return err
}

// save saves the state. It is the caller's turn.
func (r *Record) save() error {
	term, changed := r.term(), r.changed.Load()
	err := r.do(func(ctx context.Context) error { return r.dir.Save(ctx, r.Key, r.Fence, changed, r.state()) })
	if errors.Is(err, cluster.ErrUnknown) { // the engine has lost the record, and so the logs
		r.MarkLost()
		err = r.put()
	}
	if err == nil {
		r.saved.Store(changed)
		r.owned.Store(term)
		r.failed = nil
		return nil
	}
	r.failed = &failedSave{r.attempts.Add(1), changed, err}
	return err
}

// failedSave is an attempt to save that has failed.
type failedSave struct {
	attempt, upTo uint64
	err           error
}

// noticeMove tells if another process owns the session.
func (r *Record) noticeMove(err error) {
	if !errors.Is(err, eventstore.ErrFenced) && !errors.Is(err, cluster.ErrEnded) || !r.recorded.Load() {
		return
	}
	go func() { // it may call back
		if errors.Is(err, cluster.ErrEnded) || r.Regain() != nil {
			r.moved()
			return
		}
		r.MarkLost()
	}()
}

// errNotAdopted says that there is no fence from which this process has adopted the session.
var errNotAdopted = errors.New("the session was not adopted")

// Regain takes the session back after an engine has gone back to before the adoption: the record has the fence of the owner before then. Nil: this
// process owns the session.
func (r *Record) Regain() error {
	if r.from == (eventstore.Fence{}) || !r.recorded.Load() {
		return errNotAdopted
	}
	if err := r.take(); err != nil {
		return err
	}
	defer r.done()
	return r.adoptAgain()
}

// adoptAgain adopts the session as it was adopted before, and writes the record. The turn is the caller's.
func (r *Record) adoptAgain() error {
	err := r.do(func(ctx context.Context) error {
		record, _, err := r.dir.Adopt(ctx, r.Key, r.from, r.owner, r.ttl)
		if err == nil && record.Fence != r.Fence {
			return eventstore.ErrFenced
		}
		return err
	})
	if err != nil {
		return err
	}
	return r.write()
}

// MarkLost notes that the engine may have lost something of the session.
func (r *Record) MarkLost() {
	r.doubted.Store(true)
	r.lost.Store(true)
}

// IsLost reports whether the engine may have lost something of the session.
func (r *Record) IsLost() bool { return r.lost.Load() && r.recorded.Load() }

// Found notes that the session is about to be restored. If that fails, MarkLost is called again.
func (r *Record) Found() { r.lost.Store(false) }

// Unsettled reports whether the directory may have the record of a session that has ended here as if it had not. It is called after that end.
func (r *Record) Unsettled() bool { return r.written.Load() && !r.known.Load() }

// End deletes the record and the session's logs. If the directory does not answer, it returns the error, and tries again later.
func (r *Record) End() error {
	if !r.close() {
		return nil
	}
	return r.end(endAgainAfter, time.Now().Add(r.ttl))
}

// endAgainAfter is how long the second attempt to end a session waits.
const endAgainAfter = 100 * time.Millisecond

// end tries to end the session, until a time at which the record has expired.
func (r *Record) end(wait time.Duration, until time.Time) error {
	err := r.do(func(ctx context.Context) error { return r.dir.End(ctx, r.Key, r.Fence) })
	if err != nil && !errors.Is(err, eventstore.ErrFenced) && !errors.Is(err, eventstore.ErrClosed) && time.Now().Before(until) && !r.host.Stopped() {
		time.AfterFunc(wait, func() { _ = r.end(min(2*wait, 5*time.Second), until) })
		return err
	}
	r.settle()
	return err
}

// settle notes that nothing is left to tell the directory.
func (r *Record) settle() {
	r.known.Store(true)
	r.host.Settled(r.Key)
}

// Release lets other processes adopt the session at once. If the engine may have lost anything of it since it was opened here, Release writes the record
// again, and calls refill, which gives the store the logs that it may have lost. An engine can lose the logs alone, so Release asks for that first. If
// the directory does not answer, it tries again later, until the process has left the cluster: then others may adopt all its sessions. In the end done is
// called, from any goroutine. Both may be nil.
func (r *Record) Release(refill func() error, done func(error)) {
	if done == nil {
		done = func(error) {}
	}
	if !r.close() {
		r.settle()
		done(nil)
		return
	}
	r.release(releaseAgainAfter, refill, done)
}

// releaseAgainAfter is how long the second attempt to release a session waits.
const releaseAgainAfter = 50 * time.Millisecond

// release tries to release the session.
func (r *Record) release(wait time.Duration, refill func() error, done func(error)) {
	err := r.take()
	if err == nil {
		err = r.lastWrites(refill)
		r.done()
	}
	final := err == nil || errors.Is(err, errState) || errors.Is(err, eventstore.ErrFenced) || errors.Is(err, cluster.ErrEnded) || errors.Is(err, eventstore.ErrClosed) ||
		errors.Is(err, cluster.ErrSuperseded)
	if !final && !r.host.Left() {
		time.AfterFunc(wait, func() { r.release(min(2*wait, time.Second), refill, done) })
		return
	}
	r.settle()
	done(err)
}

// lastWrites saves what is not saved yet, and releases the session. The turn is the caller's.
func (r *Record) lastWrites(refill func() error) error {
	release := func(ctx context.Context) error { return r.dir.Release(ctx, r.Key, r.Fence) }
	err := r.doubt(refill)
	if err == nil {
		err = r.lastSave()
	}
	noState := errors.Is(err, errState) // the next owner goes on with what was saved last
	if noState {
		err = nil
	}
	if err == nil && (noState || !r.doubted.Load()) {
		if err = r.do(release); err == nil {
			return nil
		}
	}
	if noState && (errors.Is(err, cluster.ErrUnknown) || errors.Is(err, eventstore.ErrFenced)) { // the record cannot be written again
		return errState
	}
	if err == nil || errors.Is(err, cluster.ErrUnknown) { // the engine has lost it, or may have
		r.doubted.Store(true)
		err = r.write()
	}
	if errors.Is(err, eventstore.ErrFenced) && r.from != (eventstore.Fence{}) { // or that this process has adopted it
		r.doubted.Store(true)
		err = r.adoptAgain()
	}
	if err == nil && refill != nil {
		err = refill()
	}
	if err == nil {
		err = r.do(release)
	}
	return err
}

// doubt asks whether the engine has lost something that this process has not noticed yet: it can lose the logs alone.
func (r *Record) doubt(refill func() error) error {
	if r.doubted.Load() || refill == nil {
		return nil
	}
	return r.do(func(ctx context.Context) error {
		lost, err := r.host.Stands(ctx)
		if lost {
			r.doubted.Store(true)
		}
		return err
	})
}

// lastSave saves the state if it is not saved.
func (r *Record) lastSave() error {
	changed := r.changed.Load()
	if r.saved.Load() >= changed {
		return nil
	}
	var state []byte
	if Safely(func() error { state = r.state(); return nil }) != nil {
		return errState
	}
	err := r.do(func(ctx context.Context) error { return r.dir.Save(ctx, r.Key, r.Fence, changed, state) })
	if err == nil {
		r.saved.Store(changed)
	}
	return err
}

// errState says that the app's function of the state has panicked. Another attempt would not help.
var errState = errors.New("the state of a session cannot be had")

// Forget ends all writes of the record: another process owns it.
func (r *Record) Forget() { r.close() }

// close ends all writes of the record, and reports for the first time whether the directory may have it.
func (r *Record) close() bool {
	r.recorded.Store(false)
	return !r.over.Swap(true) && r.written.Load() // also if Create has returned an error: it may have written it
}

func (r *Record) do(operation func(ctx context.Context) error) error {
	ctx, cancel := context.Background(), context.CancelFunc(func() {})
	if r.timeout > 0 {
		ctx, cancel = context.WithTimeout(ctx, r.timeout)
	}
	defer cancel()
	return Safely(func() error { return operation(ctx) })
}
