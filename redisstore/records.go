package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

// Put implements cluster.Directory.
func (s *Store) Put(ctx context.Context, r *cluster.Record, ttl time.Duration) error {
	return s.change(ctx, putScript, r.Session, owner(r.Fence), ownerAt(r.Generation, r.Self), strconv.Itoa(r.Format)+" "+string(r.About),
		strconv.FormatUint(r.Version, 10), flag(r.State != nil), rueidis.BinaryString(r.State), milliseconds(ttl))
}

// Save implements cluster.Directory.
func (s *Store) Save(ctx context.Context, session string, fence eventstore.Fence, version uint64, state []byte) error {
	return s.change(ctx, saveScript, session, owner(fence), strconv.FormatUint(version, 10), flag(state != nil), rueidis.BinaryString(state))
}

// Release implements cluster.Directory.
func (s *Store) Release(ctx context.Context, session string, fence eventstore.Fence) error {
	return s.change(ctx, releaseScript, session, owner(fence))
}

// End implements cluster.Directory.
func (s *Store) End(ctx context.Context, session string, fence eventstore.Fence) error {
	return s.change(ctx, endScript, session, owner(fence), milliseconds(cluster.TombstoneTTL))
}

// change runs a script that changes the record of a session.
func (s *Store) change(ctx context.Context, sc *script, session string, args ...string) error {
	_, key := s.keys.session(session)
	code, err := s.code(ctx, sc, key, args...)
	if err != nil {
		return err
	}
	return recordRefusal(code)
}

// recordRefusal is the error for what a script answers about a record.
func recordRefusal(code int64) error {
	switch code {
	case 0:
		return nil
	case fenced:
		return eventstore.ErrFenced
	case gone:
		return cluster.ErrEnded
	case unknown:
		return cluster.ErrUnknown
	}
	return fmt.Errorf("redisstore: the engine has answered %d", code)
}

func ownerAt(generation uint64, self string) string {
	return strconv.FormatUint(generation, 10) + " " + self
}

// Find implements cluster.Directory. Record, count and age are of one step.
func (s *Store) Find(ctx context.Context, session string, by cluster.Process) (cluster.Found, error) {
	part, key := s.keys.session(session)
	r, err := s.run(ctx, findScript, []string{s.keys.members(part, by.Cluster), key, s.keys.age(part)}, []string{by.Self, by.Incarnation})
	if err != nil {
		return cluster.Found{}, err
	}
	answer := answerOf(r)
	record := answer.list()
	found := cluster.Found{Count: answer.number(), Age: time.Duration(answer.number()) * time.Microsecond} //nolint:gosec // an age
	if answer.err != nil {
		return cluster.Found{}, findScript.failed(answer.err)
	}
	if _, ended := record.bytes(); ended {
		return found, cluster.ErrEnded
	}
	if len(record.rest) > 0 && record.rest[0].IsNil() {
		return found, cluster.ErrUnknown
	}
	found.Record = record.record(session)
	if record.err != nil {
		return cluster.Found{}, findScript.failed(record.err)
	}
	return found, nil
}

// Adopt implements cluster.Directory. It takes time in proportion to what the session has in the engine.
func (s *Store) Adopt(
	ctx context.Context, session string, from eventstore.Fence, to cluster.Member, ttl time.Duration,
) (*cluster.Record, []cluster.Stream, error) {
	_, key := s.keys.session(session)
	next := eventstore.Fence{Incarnation: to.Incarnation, Epoch: from.Epoch + 1}
	r, err := s.run(ctx, adoptScript, []string{key}, []string{owner(from), owner(next), ownerAt(to.Generation, to.Self), milliseconds(ttl)})
	if err != nil {
		return nil, nil, err
	}
	answer := answerOf(r)
	if err := recordRefusal(answer.integer()); err != nil {
		return nil, nil, err
	}
	fieldsOfRecord := answer.list()
	record := fieldsOfRecord.record(session)
	answer.fail(fieldsOfRecord.err)
	streams := make([]cluster.Stream, 0, len(answer.rest))
	for answer.err == nil && len(answer.rest) > 0 {
		f := answer.list()
		streams = append(streams, cluster.Stream{
			Name: f.text(), About: f.text(), Backlog: f.integer() == 1, First: f.number(), Last: f.number(), Sealed: f.integer() == 1,
		})
		answer.fail(f.err)
	}
	if answer.err != nil {
		return nil, nil, adoptScript.failed(answer.err)
	}
	return record, streams, nil
}

// touchAtOnce is how many records one pipeline extends.
const touchAtOnce = 512

// Touch implements cluster.Directory. The calls are pipelined.
func (s *Store) Touch(ctx context.Context, held []cluster.Held, ttl time.Duration) (missing []cluster.Held, err error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	for now := range slices.Chunk(held, touchAtOnce) {
		found, err := s.touch(ctx, now, milliseconds(ttl))
		if err != nil {
			return nil, err
		}
		missing = append(missing, found...)
	}
	return missing, nil
}

func (s *Store) touch(ctx context.Context, held []cluster.Held, ttl string) (missing []cluster.Held, err error) {
	commands := make(rueidis.Commands, len(held))
	for i, h := range held {
		_, key := s.keys.session(h.Session)
		commands[i] = s.command("EVALSHA", touchScript.sha, []string{key}, []string{owner(h.Fence), ttl}, false)
	}
	for i, r := range s.client.DoMulti(ctx, commands...) {
		code, err := r.AsInt64()
		if unknownScript(err) {
			_, key := s.keys.session(held[i].Session)
			code, err = s.code(ctx, touchScript, key, owner(held[i].Fence), ttl)
		}
		switch {
		case err != nil:
			return nil, touchScript.failed(err)
		case code != 0:
			missing = append(missing, held[i])
		}
	}
	return missing, nil
}
