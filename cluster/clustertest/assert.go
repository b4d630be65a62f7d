package clustertest

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

func (e *exam) nilError(err error, format string, args ...any) {
	e.Helper()
	if err != nil {
		e.Fatalf("%s: %v", fmt.Sprintf(format, args...), err)
	}
}

func (e *exam) wantError(err, want error, format string, args ...any) {
	e.Helper()
	if !errors.Is(err, want) {
		e.Fatalf("%s: got error %v, want %v", fmt.Sprintf(format, args...), err, want)
	}
}

// wantBehind checks that an operation on a log was refused because the engine does not know its session.
func (e *exam) wantBehind(err error, format string, args ...any) {
	e.Helper()
	behind, ok := errors.AsType[*eventstore.BehindError](err)
	if !ok || behind.Last != 0 {
		e.Fatalf("%s: got error %v, want a BehindError with Last 0", fmt.Sprintf(format, args...), err)
	}
}

// find returns the record of a session, which must be there.
func (e *exam) find(session string) *cluster.Record {
	e.Helper()
	f, err := e.two.Find(e.ctx, session, process("nobody", "x"))
	e.nilError(err, "find session %q", session)
	if f.Record == nil {
		e.Fatalf("find session %q: no record and no error", session)
	}
	return f.Record
}

func (e *exam) wantNotFound(session string, want error, why string) {
	e.Helper()
	for _, c := range []client{e.one, e.two} {
		f, err := c.Find(e.ctx, session, process("nobody", "x"))
		e.wantError(err, want, "%s: find session %q", why, session)
		if f.Record != nil {
			e.Fatalf("%s: find session %q: an error and a record", why, session)
		}
	}
}

// wantRecord compares a record, of which an empty About may be nil.
func (e *exam) wantRecord(got, want *cluster.Record, why string) {
	e.Helper()
	if got == nil {
		e.Fatalf("%s: there is no record", why)
	}
	if (got.State == nil) != (want.State == nil) {
		e.Fatalf("%s: the state of the record is %.20q (nil: %v), want %.20q (nil: %v)", why, got.State, got.State == nil, want.State, want.State == nil)
	}
	a, b := *got, *want
	if len(a.About) == 0 && len(b.About) == 0 {
		a.About, b.About = nil, nil
	}
	if !reflect.DeepEqual(a, b) {
		e.Fatalf("%s: the record is\n%s, want\n%s", why, short(a), short(b))
	}
}

// short is a record as text, without most of a long state.
func short(r cluster.Record) string {
	return fmt.Sprintf("%q %+v of %q, generation %d, released %v, format %d, about %.40q (%d bytes), state %.40q (%d bytes), version %d",
		r.Session, r.Fence, r.Self, r.Generation, r.Released, r.Format, r.About, len(r.About), r.State, len(r.State), r.Version)
}

func (e *exam) wantStreams(got, want []cluster.Stream, why string) {
	e.Helper()
	if !slices.Equal(got, want) {
		e.Fatalf("%s: the streams are\n%+v, want\n%+v", why, got, want)
	}
}

func (e *exam) renew(c client, m cluster.Member) cluster.View {
	e.Helper()
	v, err := c.Renew(e.ctx, m, lease)
	e.nilError(err, "renew %q with count %d", m.Incarnation, m.Count)
	return v
}

// join lets p join as the newest process.
func (e *exam) join(c client, p cluster.Process) cluster.Member {
	e.Helper()
	e.joined++
	want := cluster.Member{Process: p, Generation: e.joined}
	m, err := c.Join(e.ctx, want, lease)
	e.nilError(err, "join %q", p.Incarnation)
	if m != want {
		e.Fatalf("joined as %+v, want %+v", m, want)
	}
	return m
}

// wantNotJoined checks that a Join is refused, and says what stands.
func (e *exam) wantNotJoined(m, stands cluster.Member, why string) {
	e.Helper()
	for _, c := range []client{e.one, e.two} {
		got, err := c.Join(e.ctx, m, lease)
		e.wantError(err, cluster.ErrSuperseded, "%s: join with generation %d", why, m.Generation)
		if got != stands {
			e.Fatalf("%s: a refused Join returned %+v, want %+v, which stands", why, got, stands)
		}
	}
}

// wantTouched touches, and compares what Touch has found missing.
func (e *exam) wantTouched(c cluster.Directory, held []cluster.Held, ttl time.Duration, missing []cluster.Held, why string) {
	e.Helper()
	got, err := c.Touch(e.ctx, held, ttl)
	e.nilError(err, "%s: touch", why)
	if !slices.Equal(got, missing) {
		e.Fatalf("%s: Touch is missing %d of %d,\n%.999s, want %d,\n%.999s", why, len(got), len(held), fmt.Sprint(got), len(missing), fmt.Sprint(missing))
	}
}

// wantMissing checks that o does not own its session, as Touch sees it.
func (e *exam) wantMissing(o owner, why string) {
	e.Helper()
	held := []cluster.Held{{Session: o.session, Fence: o.fence}}
	e.wantTouched(o, held, ttl, held, fmt.Sprintf("%s: as %v", why, o.fence))
}

// wantMembers compares the members of a view, in any order.
func (e *exam) wantMembers(v cluster.View, why string, want ...cluster.Member) {
	e.Helper()
	order := func(a, b cluster.Member) int { return strings.Compare(a.Self, b.Self) }
	got := slices.SortedFunc(slices.Values(v.Members), order)
	if want = slices.SortedFunc(slices.Values(want), order); !slices.Equal(got, want) {
		e.Fatalf("%s: the members are\n%+v, want\n%+v", why, got, want)
	}
}

// text is an event that names its stream and number.
func text(stream string, seq uint64) []byte {
	return fmt.Appendf(nil, `{"stream":%q,"seq":%d}`, stream, seq)
}

func texts(stream string, first, last uint64) [][]byte {
	var events [][]byte
	for seq := first; seq <= last; seq++ {
		events = append(events, text(stream, seq))
	}
	return events
}

func (e *exam) append(o owner, stream string, first, last uint64, seal bool) {
	e.Helper()
	err := o.log(stream).Append(e.ctx, first, texts(stream, first, last), seal)
	e.nilError(err, "append the events %d to %d of %q", first, last, stream)
}

// wantLog checks the state of a log, and that it has exactly the events from first to last, as text makes them. The reader has no fence.
func (e *exam) wantLog(o owner, stream string, first, last uint64, sealed bool, why string) {
	e.Helper()
	l := e.two.Log(eventstore.Key{Session: o.session, Stream: stream})
	buf := make([]eventstore.Event, last-first+2)
	n, st, err := l.Read(e.ctx, first-1, buf, 0)
	e.nilError(err, "%s: read %q", why, stream)
	if want := (eventstore.State{First: first, Last: last, Sealed: sealed}); st != want {
		e.Fatalf("%s: the state of log %q is %+v, want %+v", why, stream, st, want)
	}
	if n != int(last-first+1) {
		e.Fatalf("%s: log %q has %d events, want those from %d to %d", why, stream, n, first, last)
	}
	for i, ev := range buf[:n] {
		if seq := first + uint64(i); ev.Seq != seq || !bytes.Equal(ev.Data, text(stream, seq)) {
			e.Fatalf("%s: event %d of log %q reads %d, %.80q", why, seq, stream, ev.Seq, ev.Data)
		}
	}
}

// wantNoEvents checks that a log has none, as a reader without a fence sees it.
func (e *exam) wantNoEvents(o owner, stream string, why string) {
	e.Helper()
	_, st, err := e.two.Log(eventstore.Key{Session: o.session, Stream: stream}).Read(e.ctx, 0, nil, 0)
	if err == nil && st != (eventstore.State{First: 1}) {
		e.Fatalf("%s: log %q has the state %+v", why, stream, st)
	}
}

// at runs all functions at once, and returns their errors.
func at(functions ...func() error) []error {
	errs := make([]error, len(functions))
	start, done := make(chan struct{}), make(chan struct{})
	for i, f := range functions {
		go func() {
			<-start
			defer func() { done <- struct{}{} }()
			errs[i] = f()
		}()
	}
	close(start)
	for range functions {
		<-done
	}
	return errs
}
