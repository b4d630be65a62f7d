package torture_test

import (
	"context"
	"time"

	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

// clock is the directory as a process sees it whose clock is ahead or behind by years. A process makes its generation from its clock.
func (tt *torture) clock(p *machine) cluster.Directory {
	random := tt.rand(p.name + " clock")
	ahead := []time.Duration{0, time.Second, 20 * 365 * 24 * time.Hour, -20 * 365 * 24 * time.Hour}[random.IntN(4)]
	if !tt.moods.clocks || ahead == 0 {
		return p.watch
	}
	tt.tally.did("clock " + map[bool]string{true: "ahead", false: "behind"}[ahead > 0])
	tt.say("%s: its clock is ahead by %v", p.name, ahead)
	return &skewed{p.watch, uint64(ahead / time.Microsecond)}
}

// skewed adds to the generations that a process proposes, and takes that off in all answers.
type skewed struct {
	cluster.Directory
	ahead uint64
}

func (d *skewed) there(m cluster.Member) cluster.Member {
	m.Generation += d.ahead
	return m
}

func (d *skewed) here(r *cluster.Record) *cluster.Record {
	if r != nil {
		mine := *r
		mine.Generation -= d.ahead
		r = &mine
	}
	return r
}

func (d *skewed) Join(ctx context.Context, m cluster.Member, lease time.Duration) (cluster.Member, error) {
	stands, err := d.Directory.Join(ctx, d.there(m), lease)
	stands.Generation -= d.ahead
	return stands, err
}

func (d *skewed) Renew(ctx context.Context, m cluster.Member, lease time.Duration) (cluster.View, error) {
	v, err := d.Directory.Renew(ctx, d.there(m), lease)
	for i := range v.Members {
		v.Members[i].Generation -= d.ahead
	}
	return v, err
}

func (d *skewed) Leave(ctx context.Context, m cluster.Member) error {
	return d.Directory.Leave(ctx, d.there(m))
}

func (d *skewed) Put(ctx context.Context, r *cluster.Record, ttl time.Duration) error {
	mine := *r
	mine.Generation += d.ahead
	return d.Directory.Put(ctx, &mine, ttl)
}

func (d *skewed) Find(ctx context.Context, session string, by cluster.Process) (cluster.Found, error) {
	f, err := d.Directory.Find(ctx, session, by)
	f.Record = d.here(f.Record)
	return f, err
}

func (d *skewed) Adopt(
	ctx context.Context, session string, from eventstore.Fence, to cluster.Member, ttl time.Duration,
) (*cluster.Record, []cluster.Stream, error) {
	r, streams, err := d.Directory.Adopt(ctx, session, from, d.there(to), ttl)
	return d.here(r), streams, err
}
