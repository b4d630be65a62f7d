package core

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRetry lets the client of a call go after some polls that brought nothing.
func TestRetry(t *testing.T) {
	const most = math.MaxUint32
	for _, c := range []struct {
		name       string
		retry, max time.Duration
		override   time.Duration
		polls      int // that bring nothing
		rand       uint32
		primer     time.Duration
		close      time.Duration
	}{
		{"first close: the POST was no poll", time.Second, time.Minute, 0, 0, 0, time.Second, time.Second},
		{"one empty poll", time.Second, time.Minute, 0, 1, 0, time.Second, 1500 * time.Millisecond},
		{"two", time.Second, time.Minute, 0, 2, 0, time.Second, 2250 * time.Millisecond},
		{"as many as it takes", time.Second, time.Minute, 0, 10, 0, time.Second, 57665039062 * time.Nanosecond},
		{"one more", time.Second, time.Minute, 0, 11, 0, time.Second, time.Minute},
		{"any number", time.Second, time.Minute, 0, 1000, 0, time.Second, time.Minute},
		{"jitter, none", 10 * time.Second, time.Minute, 0, 0, 0, 10 * time.Second, 10 * time.Second},
		{"jitter, half", 10 * time.Second, time.Minute, 0, 0, 1 << 31, 10 * time.Second, 11 * time.Second},
		{"jitter, most: less than a fifth", 10 * time.Second, time.Minute, 0, 0, most, 10 * time.Second, 12*time.Second - time.Microsecond},
		{"jitter comes on top of RetryMax", time.Second, time.Minute, 0, 50, 1 << 31, time.Second, 66 * time.Second},
		{"RetryMax that is less than Retry", 10 * time.Second, time.Second, 0, 5, 0, 10 * time.Second, 10 * time.Second},
		{"no RetryMax: no growth", time.Second, 0, 0, 5, 0, time.Second, time.Second},
		{"negative RetryMax: no growth", time.Second, -1, 0, 5, 0, time.Second, time.Second},
		{"no Retry: the least", 0, time.Minute, 0, 0, 0, time.Millisecond, time.Millisecond},
		{"the least grows", 0, time.Minute, 0, 1, 0, time.Millisecond, 1500 * time.Microsecond},
		{"less than the least", time.Nanosecond, time.Minute, 0, 0, 0, time.Millisecond, time.Millisecond},
		{"negative Retry: the least", -time.Second, time.Minute, 0, 0, 0, time.Millisecond, time.Millisecond},
		{"the most", time.Hour, time.Hour, 0, 3, most, time.Hour, time.Hour},
		{"more than the most", 5 * time.Hour, 10 * time.Hour, 0, 3, most, time.Hour, time.Hour},
		{"growth beyond the most", time.Minute, 100 * time.Hour, 0, 100, 0, time.Minute, time.Hour},
		{"growth that would overflow", time.Minute, math.MaxInt64, 0, 1000, most, time.Minute, time.Hour},
		{"override", time.Second, time.Minute, 5 * time.Second, 0, 0, time.Second, 5 * time.Second},
		{"override does not grow", time.Second, time.Minute, 5 * time.Second, 9, 0, time.Second, 5 * time.Second},
		{"override has jitter", time.Second, time.Minute, 5 * time.Second, 0, 1 << 31, time.Second, 5500 * time.Millisecond},
		{"override may exceed RetryMax", time.Second, time.Minute, 10 * time.Minute, 0, 0, time.Second, 10 * time.Minute},
		{"override, the least", time.Second, time.Minute, time.Nanosecond, 0, 0, time.Second, time.Millisecond},
		{"override, the most", time.Second, time.Minute, math.MaxInt64, 0, most, time.Second, time.Hour},
		{"override that is negative: none", time.Second, time.Minute, -5 * time.Second, 0, 0, time.Second, time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPoller(t, Policy{Retry: c.retry, RetryMax: c.max})
			for range c.polls {
				p.close(0, 0)
				p.poll()
			}
			require.Equal(t, c.close, p.close(c.override, c.rand))
			require.Equal(t, c.primer, p.primer)
		})
	}
}

// TestRetryReset: an event, and nothing else, makes the next close say the base value.
func TestRetryReset(t *testing.T) {
	p := newPoller(t, Policy{Retry: time.Second, RetryMax: time.Minute})
	grow := func() {
		for range 4 {
			p.close(0, 0)
			p.poll()
		}
	}
	grow()
	p.step(In{Op: Emit, Stream: streamID("A")})
	require.Equal(t, time.Second, p.close(0, 0))

	p.poll()
	grow()
	p.step(In{Op: Emit, Stream: streamID("B")})
	p.step(In{Op: Emit})
	p.step(In{Op: Touch})
	require.Greater(t, p.close(0, 0), time.Second, "other streams are others")

	// A poll that was lost brought nothing, but was not let go either: it is no reason to come less often.
	p.poll()
	before := p.close(0, 0)
	p.poll()
	p.step(In{Op: Gone, Stream: streamID("A"), Conn: p.conn})
	p.poll()
	require.Equal(t, before*3/2, p.close(0, 0))
}

// poller is a client whose call has been let go for the first time only after close.
type poller struct {
	t      *testing.T
	m      Machine
	conn   ConnID
	primer time.Duration
}

func newPoller(t *testing.T, policy Policy) *poller {
	t.Helper()
	p := &poller{t: t, m: New(&Config{Policy: policy}, streamID("S"), start), conn: 1}
	p.m.phase, p.m.canPoll = phaseOpen, true
	p.step(In{Op: Post, Stream: streamID("A"), Conn: 1, ID: "1", Policy: &policy})
	return p
}

func (p *poller) step(in In) []Out {
	p.t.Helper()
	out := p.m.Step(start, &in, nil)
	for _, o := range out {
		if o.Do == Primer {
			p.primer = o.Dur
		}
	}
	check(p.t, &p.m)
	return out
}

// close returns the retry that the client is told.
func (p *poller) close(override time.Duration, rand uint32) time.Duration {
	p.t.Helper()
	out := p.step(In{Op: Close, Stream: streamID("A"), Dur: override, Rand: rand})
	last := out[len(out)-1]
	require.Equal(p.t, End, last.Do)
	require.Equal(p.t, p.conn, last.Conn)
	return last.Dur
}

func (p *poller) poll() {
	p.t.Helper()
	p.step(In{Op: Written, Stream: streamID("A"), Conn: p.conn, Seq: p.m.streams[1].seq})
	p.step(In{Op: Gone, Stream: streamID("A"), Conn: p.conn})
	p.conn++
	p.step(In{Op: Get, Conn: p.conn, Flags: HasCursor, Stream: streamID("A"), Seq: p.m.streams[1].seq, Nonce: uint64(p.conn)})
	p.m.nextGet = 0 // how many come is another matter
}
