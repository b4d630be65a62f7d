package redisstore

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/rejoin-mcp/rejoin/cluster"
)

// home is the part whose entries decide about processes. The other parts follow: what they have is for Find, and shows what a shard has lost.
const home = 0

// Join implements cluster.Directory.
func (s *Store) Join(ctx context.Context, m cluster.Member, lease time.Duration) (cluster.Member, error) {
	stands, err := s.join(ctx, home, m, lease)
	if err != nil || s.keys.parts == 1 {
		return stands, err
	}
	refused, err := s.elsewhere(func(part int) (cluster.Member, error) { return s.join(ctx, part, m, lease) })
	if errors.Is(err, cluster.ErrSuperseded) {
		return refused, err
	}
	return stands, err
}

func (s *Store) join(ctx context.Context, part int, m cluster.Member, lease time.Duration) (stands cluster.Member, err error) {
	r, err := s.run(ctx, joinScript, []string{s.keys.members(part, m.Cluster), s.keys.age(part)}, []string{
		m.Self, m.Incarnation, strconv.FormatUint(m.Generation, 10), milliseconds(lease),
	})
	if err != nil {
		return cluster.Member{}, err
	}
	f := answerOf(r)
	code, entry := f.integer(), f.text()
	if f.err == nil {
		stands, f.err = parseMember(m.Process, entry)
	}
	if f.err != nil {
		return cluster.Member{}, joinScript.failed(f.err)
	}
	if code < 0 {
		return stands, cluster.ErrSuperseded
	}
	return stands, nil
}

// elsewhere calls f for all parts but the home, at once. Of several errors it returns ErrSuperseded first.
func (s *Store) elsewhere(f func(part int) (cluster.Member, error)) (cluster.Member, error) {
	var all sync.WaitGroup
	members, errs := make([]cluster.Member, s.keys.parts), make([]error, s.keys.parts)
	for part := range s.keys.parts {
		if part != home {
			all.Go(func() { members[part], errs[part] = f(part) })
		}
	}
	all.Wait()
	for part, err := range errs {
		if errors.Is(err, cluster.ErrSuperseded) {
			return members[part], err
		}
	}
	for _, err := range errs {
		if err != nil {
			return cluster.Member{}, err
		}
	}
	return cluster.Member{}, nil
}

// Renew implements cluster.Directory. Was is the lowest of all parts.
func (s *Store) Renew(ctx context.Context, m cluster.Member, lease time.Duration) (cluster.View, error) {
	v, err := s.renew(ctx, home, m, lease)
	if err != nil || s.keys.parts == 1 {
		return v, err
	}
	var mu sync.Mutex
	_, err = s.elsewhere(func(part int) (cluster.Member, error) {
		there, err := s.renew(ctx, part, m, lease)
		mu.Lock()
		defer mu.Unlock()
		v.Was = min(v.Was, there.Was)
		return cluster.Member{}, err
	})
	if err != nil {
		return cluster.View{}, err
	}
	return v, nil
}

func (s *Store) renew(ctx context.Context, part int, m cluster.Member, lease time.Duration) (v cluster.View, err error) {
	r, err := s.run(ctx, renewScript, []string{s.keys.members(part, m.Cluster), s.keys.age(part)}, []string{
		m.Self, m.Incarnation, strconv.FormatUint(m.Generation, 10), milliseconds(lease), strconv.FormatUint(m.Count, 10), flag(m.Left), flag(part == home),
	})
	if err != nil {
		return v, err
	}
	f := answerOf(r)
	if f.integer() < 0 {
		return v, cluster.ErrSuperseded
	}
	v.Was = f.number()
	members := f.list()
	for members.err == nil && len(members.rest) > 0 {
		p := cluster.Process{Cluster: m.Cluster, Self: members.text()}
		entry := members.text()
		if members.err != nil {
			break
		}
		member, err := parseMember(p, entry)
		members.fail(err)
		v.Members = append(v.Members, member)
	}
	f.fail(members.err)
	if f.err != nil {
		return cluster.View{}, renewScript.failed(f.err)
	}
	return v, nil
}

// Leave implements cluster.Directory.
func (s *Store) Leave(ctx context.Context, m cluster.Member) error {
	leave := func(part int) (cluster.Member, error) {
		_, err := s.code(ctx, leaveScript, s.keys.members(part, m.Cluster), m.Self, m.Incarnation)
		return cluster.Member{}, err
	}
	if _, err := leave(home); err != nil {
		return err
	}
	_, err := s.elsewhere(leave)
	return err
}
