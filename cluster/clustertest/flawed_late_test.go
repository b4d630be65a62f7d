package clustertest

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"time"

	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

// record is the record that stands, or nil.
func (f *flawed) record(session string) *cluster.Record {
	found, _ := f.Memory.Find(context.Background(), session, cluster.Process{})
	return found.Record
}

// saved is Save with a flaw of versions. It reports false if the flaw does not concern this call.
func (f *flawed) saved(session string, fence eventstore.Fence, version uint64, state []byte) (mine bool, err error) {
	now := f.record(session)
	if now == nil || now.Fence != fence {
		return now == nil && f.has("answers late saves at once") && version == 0, nil
	}
	late := version <= now.Version
	switch {
	case late && f.has("saves older states"), version == now.Version && f.has("saves equal versions"):
	case late && f.has("refuses late saves"):
		return true, eventstore.ErrFenced
	case !late && f.has("saves in two steps"):
		for range 10 {
			runtime.Gosched()
		}
		now = f.record(session)
	default:
		return false, nil
	}
	now.State, now.Version = state, max(version, now.Version)
	return true, f.Memory.Put(context.Background(), now, ttl)
}

// putting changes a record that is put with a flaw of versions. It reports false if it is not put.
func (f *flawed) putting(r *cluster.Record) bool {
	now := f.record(r.Session)
	switch {
	case now == nil || now.Fence != r.Fence:
	case f.has("puts older states"):
		r.Version = max(r.Version, now.Version)
	case f.has("puts no equal versions") && r.Version == now.Version:
		r.State = now.State
	case f.has("puts nothing that is late"):
		return r.Version >= now.Version
	}
	return true
}

// look is Find with a flaw of the age or the count.
func (f *flawed) look(ctx context.Context, session string, by cluster.Process) (cluster.Found, error) {
	var early cluster.Found
	if f.has("looks at the age first", "looks at the count first") {
		early, _ = f.Memory.Find(ctx, session, by)
		for range 10 {
			runtime.Gosched()
		}
	}
	found, err := f.Memory.Find(ctx, session, by)
	switch {
	case f.has("cannot tell its age"):
		found.Age = 0
	case f.has("becomes no older than an hour"):
		found.Age = min(found.Age, time.Hour)
	case f.has("keeps its age when it forgets"):
		found.Age = time.Since(f.born)
	case f.has("looks at the age first"):
		found.Age = early.Age
	case f.has("looks at the count first"):
		found.Count = early.Count
	case f.has("gives no age with an error") && errors.Is(err, cluster.ErrEnded):
		found.Age = 0
	}
	return found, err
}

// missed is what Touch returns with a flaw, if it was missing that.
func (f *flawed) missed(held, missing []cluster.Held) []cluster.Held {
	of := func(want error) []cluster.Held {
		return slices.DeleteFunc(missing, func(h cluster.Held) bool {
			_, err := f.current(h.Session)
			return !errors.Is(err, want)
		})
	}
	switch {
	case f.has("misses nothing"):
		return nil
	case f.has("misses what it has touched"):
		return held
	case f.has("misses only the unknown"):
		return of(cluster.ErrUnknown)
	case f.has("misses only the ended"):
		return of(cluster.ErrEnded)
	}
	return missing
}
