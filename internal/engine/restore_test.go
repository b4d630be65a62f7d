package engine

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/internal/respond"
)

// process is one session in one of the processes that have it in turn. All use one store.
type process struct {
	*testing.T

	host    relay
	s       Session
	store   eventstore.Store
	number  int
	served  map[string]*served
	streams map[string]core.StreamID // by the id of their request
	names   map[string]string        // of streams, by what the server calls them
}

// relay is the server around a session.
type relay struct {
	testHost

	mu      sync.Mutex
	reports []Kind
}

func (h *relay) Failure(id []byte, why core.Reason) []byte {
	return fmt.Appendf(nil, "error %s %s", id, reasonNames[why])
}

func (h *relay) Report(e Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reports = append(h.reports, e.Kind)
}

// served is a response. Its client may refuse to read.
type served struct {
	http.Flusher

	client *httptest.ResponseRecorder
	cancel context.CancelFunc
	stuck  chan struct{} // nil: it reads
	done   bool
}

func (s *served) Header() http.Header  { return s.client.Header() }
func (s *served) WriteHeader(code int) { s.client.WriteHeader(code) }
func (s *served) Write(b []byte) (int, error) {
	if s.stuck != nil && len(b) > 1000 {
		<-s.stuck
	}
	return s.client.Write(b)
}

func sharedConfig(store eventstore.Store) Config {
	return Config{Store: store, Machine: core.Config{
		Policy: core.Policy{Retry: time.Second, RetryMax: time.Minute, Retain: time.Hour, CloseAfter: time.Minute}, SessionIdleTTL: 24 * time.Hour,
		Remember: 100,
	}}
}

// firstProcess opens a session.
func firstProcess(t *testing.T, store eventstore.Store) *process {
	t.Helper()
	p := &process{T: t, store: store, number: 1, streams: map[string]core.StreamID{}, names: map[string]string{}}
	p.s.Init(New(sharedConfig(store)), &p.host, Identity{ID: secret, Created: time.Now()})
	p.begin()
	p.post("init", core.Initialize, core.JSON)
	p.s.Opened("2025-11-25", true)
	p.reply("init", "{}")
	return p
}

// begin gives the standalone stream its name: S of the first process, S2, S3.
func (p *process) begin() {
	p.served = map[string]*served{}
	name := "S"
	if p.number > 1 {
		name = fmt.Sprintf("S%d", p.number)
	}
	p.names[StreamName(secret, p.s.Standalone())] = name
}

// next goes on in another process. The one before is just no longer used.
func (p *process) next(change func(*Restored)) *process {
	p.Helper()
	for _, c := range p.served {
		c.cancel()
	}
	synctest.Wait()
	q := &process{T: p.T, store: p.store, number: p.number + 1, streams: p.streams, names: p.names}
	from := &Restored{Machine: p.s.m.Snapshot()}
	if st := p.s.streams[0]; st.last > 0 {
		from.Machine.Older = append(from.Machine.Older, core.OlderStream{ID: from.Machine.Standalone, Last: st.last})
	}
	from.Machine.Standalone = NewStandalone()
	for _, at := range from.Machine.Streams {
		st := p.s.streams[p.s.m.Index(at.ID)]
		from.Streams = append(from.Streams, RestoredStream{Number: st.n, Method: st.method, RequestID: st.requestID})
	}
	from.Older = make([]eventstore.Log, len(from.Machine.Older))
	if change != nil {
		change(from)
	}
	p.s.timer.Stop()
	q.s.Restore(New(sharedConfig(p.store)), &q.host, Identity{ID: secret, Created: time.Now()}, from)
	q.begin()
	return q
}

// serve serves a connection.
func (p *process) serve(name string, stuck bool, attach func(respond.Writer) *Conn) {
	c := &served{client: httptest.NewRecorder()}
	c.Flusher = c.client
	if stuck {
		c.stuck = make(chan struct{})
	}
	ctx, cancel := context.WithCancel(p.Context())
	c.cancel = cancel
	p.served[name] = c
	conn := attach(respond.New(c, 0))
	go func() {
		how, why := conn.Serve(ctx)
		if how == Refused {
			c.client.Body.WriteString("refused: " + map[core.Reason]string{core.NothingLeft: "nothing left", core.Unknown: "unknown"}[why])
		}
		conn.End(how)
		c.done = true
	}()
	synctest.Wait()
}

func (p *process) post(id string, flags core.Flags, mode core.Mode) {
	r := new(Request)
	r.Init(&p.s, new(testTool), id, "tools/call", false)
	p.serve("post "+id, false, func(w respond.Writer) *Conn {
		policy := sharedConfig(nil).Machine.Policy
		policy.Mode = mode
		c, _ := p.s.Post(w, &Post{Request: r, Flags: flags, Policy: policy})
		return c
	})
	p.streams[id] = r.Stream()
	p.names[StreamName(secret, r.Stream())] = "R" + id
}

func (p *process) emit(id, data string) {
	m := Message{Op: core.Emit, Data: []byte(data)}
	if id != "" {
		m.Stream = p.streams[id]
	}
	require.Equal(p, core.NoReason, p.s.Send(m))
	synctest.Wait()
}

func (p *process) reply(id, data string) {
	require.Equal(p, core.NoReason, p.s.Send(Message{Op: core.Reply, Stream: p.streams[id], ID: id, Data: []byte(data)}))
	synctest.Wait()
}

// get resumes from a cursor, as got writes it; "": from none. What it gets is under the name of the cursor.
func (p *process) get(cursor string, stuck bool) {
	p.Helper()
	get := Get{}
	if cursor != "" {
		stream, at, _ := strings.Cut(cursor, ".")
		for name, short := range p.names {
			if short == stream {
				stream = name
			}
		}
		var ok bool
		get.Stream, get.Seq, ok = ParseEventID(secret, stream+"."+at)
		require.True(p, ok, "%s is a cursor", cursor)
		get.Resumes = true
	}
	p.serve(cursor, stuck, func(w respond.Writer) *Conn {
		c, _ := p.s.Get(w, get)
		return c
	})
}

// got is what a response has so far, on one line. Nonces are written as n, data of a thousand bytes and more by its first one.
func (p *process) got(name string) string {
	p.Helper()
	c := p.served[name]
	var words []string
	id := ""
	for line := range strings.Lines(c.client.Body.String()) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch key {
		case "id":
			stream, at, _ := strings.Cut(value, ".")
			require.Contains(p, p.names, stream, "each id is one of a stream")
			if seq, _, primer := strings.Cut(at, "."); primer {
				at = seq + ".n"
			}
			id = p.names[stream] + "." + at
		case "retry":
			words = append(words, "retry")
		case "data":
			if len(value) > 1000 {
				value = value[:1]
			}
			words = append(words, strings.TrimSuffix(id+" "+value, " "))
			id = ""
		case "event", "":
		default:
			words = append(words, strings.TrimSpace(line))
		}
	}
	if c.done {
		words = append(words, "end")
	}
	return strings.Join(words, ", ")
}

// A client goes on from the cursor of a standalone stream that the session had two processes ago, and misses nothing.
func TestOlderStandaloneStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := firstProcess(t, eventstore.NewMemory(eventstore.MemoryConfig{}))
		p.get("", false)
		p.emit("", "a")
		require.Equal(t, "retry, S.0.n, S.1 a", p.got(""))
		p.served[""].cancel()
		synctest.Wait()
		p.emit("", "b")

		p = p.next(nil)
		p.get("", false)
		p.emit("", "c")
		require.Equal(t, "retry, S2.0.n, S2.1 c", p.got(""), "without a cursor there is only what is new")

		p = p.next(nil)
		p.emit("", "d")
		p.get("S.1", false)
		require.Equal(t, "retry, S.1.n, S.2 b, S2.1 c, S3.1 d", p.got("S.1"), "in one connection")
		p.emit("", "e")
		require.Equal(t, "retry, S.1.n, S.2 b, S2.1 c, S3.1 d, S3.2 e", p.got("S.1"), "which goes on")

		p.get("S2.0", false)
		require.Equal(t, "retry, S2.0.n, S2.1 c, S3.1 d, S3.2 e", p.got("S2.0"))
		require.Equal(t, "retry, S.1.n, S.2 b, S2.1 c, S3.1 d, S3.2 e, retry, end", p.got("S.1"), "it was taken over")
		p.get("S2.1", false)
		require.Equal(t, "retry, S2.1.n, S3.1 d, S3.2 e", p.got("S2.1"))
		p.get("S.99", false)
		require.Equal(t, "retry, S.99.n, S2.1 c, S3.1 d, S3.2 e", p.got("S.99"), "past the end is the end")
		p.get("S3.1", false)
		require.Equal(t, "retry, S3.1.n, S3.2 e", p.got("S3.1"), "the cursors of the connection go on from there")
		p.get("", false)
		require.Equal(t, "retry, S3.2.n", p.got(""), "what was written is written")
		require.Zero(t, p.s.engine.Counters.Expired.Load(), "nothing is missing")

		forgotten := NewStandalone()
		p.names[StreamName(secret, forgotten)] = "S9"
		p.get("S9.4", false)
		require.Equal(t, "retry, S3.2.n", p.got("S9.4"), "as without a cursor")
		require.EqualValues(t, 1, p.s.engine.Counters.Expired.Load())
		require.Empty(t, p.host.reports)
		p.s.End(core.Deleted, nil)
	})
}

// What an older log has lost is left out, and the operator is told.
func TestOlderStandaloneStreamsWithLosses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := firstProcess(t, eventstore.NewMemory(eventstore.MemoryConfig{BacklogBytes: 8 << 10}))
		for i := range 9 {
			p.emit("", string(rune('a'+i))+strings.Repeat("x", 2000))
		}
		p = p.next(nil)
		p.emit("", "c")
		p = p.next(nil)
		p.emit("", "d")
		p.get("S.0", false)
		require.Equal(t, "retry, S.0.n, S.7 g, S.8 h, S.9 i, S2.1 c, S3.1 d", p.got("S.0"))
		require.Equal(t, []Kind{Gap}, p.host.reports)
		require.EqualValues(t, 1, p.s.engine.Counters.Expired.Load())

		require.NoError(t, (*p.s.older)[0].log.Drop(t.Context()))
		p.get("S.8", false)
		require.Equal(t, "retry, S.8.n, S2.1 c, S3.1 d", p.got("S.8"), "a log that is gone")
		require.Equal(t, []Kind{Gap, Gap}, p.host.reports)

		failing := &failingLog{Log: (*p.s.older)[1].log, err: errors.New("away")}
		(*p.s.older)[1].log = failing
		p.get("S.8", false)
		require.Equal(t, "retry, S.8.n, retry, end", p.got("S.8"), "a store that is away: the client tries again")
		require.Equal(t, []Kind{Gap, Gap, Gap, StoreFailed}, p.host.reports)
		failing.err = eventstore.ErrFenced
		p.get("S.8", false)
		require.Equal(t, "retry, S.8.n, retry, end", p.got("S.8"), "a session that has moved on")
		require.Equal(t, core.Moved, p.host.why)
	})
}

type failingLog struct {
	eventstore.Log

	err error
}

func (l *failingLog) Read(context.Context, uint64, []eventstore.Event, int) (int, eventstore.State, error) {
	return 0, eventstore.State{}, l.err
}

// A client that is sent away while it gets what is older is given all of it first, unless its time is over, or another connection has come.
func TestOlderStandaloneStreamsAreLeft(t *testing.T) {
	long := strings.Repeat("x", 5000)
	restored := func(t *testing.T) *process {
		p := firstProcess(t, eventstore.NewMemory(eventstore.MemoryConfig{}))
		for i := range 4 {
			p.emit("", string(rune('a'+i))+long)
		}
		p = p.next(nil)
		p.emit("", "e")
		p.get("S.0", true) // it does not read the first piece, which has two events
		require.Empty(t, p.got("S.0"))
		return p
	}
	release := func(p *process) {
		close(p.served["S.0"].stuck)
		synctest.Wait()
	}
	synctest.Test(t, func(t *testing.T) {
		p := restored(t)
		require.Equal(t, core.NoReason, p.s.Close(p.s.Standalone(), 0))
		release(p)
		require.Equal(t, "retry, S.0.n, S.1 a, S.2 b, S.3 c, S.4 d, S2.1 e, retry, end", p.got("S.0"))
		p.s.End(core.Deleted, nil)
	})
	synctest.Test(t, func(t *testing.T) {
		p := restored(t)
		p.get("S.2", false)
		release(p)
		require.Equal(t, "retry, S.0.n, S.1 a, S.2 b, retry, end", p.got("S.0"), "taken over")
		require.Equal(t, "retry, S.2.n, S.3 c, S.4 d, S2.1 e", p.got("S.2"))
		p.s.End(core.Deleted, nil)
	})
	synctest.Test(t, func(t *testing.T) {
		p := restored(t)
		<-time.After(2 * time.Minute) // CloseAfter
		release(p)
		require.Equal(t, "retry, S.0.n, S.1 a, S.2 b, retry, end", p.got("S.0"), "its time is over, and it has brought something")
		p.get("S.2", false)
		require.Equal(t, "retry, S.2.n, S.3 c, S.4 d, S2.1 e", p.got("S.2"), "the rest")
		p.s.End(core.Deleted, nil)
	})
}

// A request whose process was lost is answered with an error after all that is recorded, with an id that no event can have.
func TestLostStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := firstProcess(t, eventstore.NewMemory(eventstore.MemoryConfig{}))
		p.post("1", 0, core.SSE)
		p.emit("1", "a")
		p.emit("1", "b")
		p.post("2", 0, core.SSE)
		p.emit("2", "c")
		p.reply("2", "two")
		p.post("3", 0, core.SSE)
		require.Equal(t, core.NoReason, p.s.Close(p.streams["3"], 0))
		p.post("4", 0, core.Auto) // undecided

		p = p.next(nil)
		p.get("R1.1", false)
		require.Equal(t, "retry, R1.1.n, R1.2 b, R1.2.n error 1 owner lost, end", p.got("R1.1"))
		p.get("R1.2", false)
		require.Equal(t, "retry, R1.2.n, R1.2.n error 1 owner lost, end", p.got("R1.2"), "the id of the error")
		p.get("R1.3", false)
		require.Equal(t, "retry, R1.3.n, R1.3.n error 1 owner lost, end", p.got("R1.3"), "past the end")
		p.get("R2.0", false)
		require.Equal(t, "retry, R2.0.n, R2.1 c, R2.2 two, end", p.got("R2.0"), "a result")
		p.get("R2.2", false)
		require.Equal(t, "refused: nothing left, end", p.got("R2.2"))
		p.get("R2.3", false)
		require.Equal(t, "retry, R2.3.n, R2.3.n error 2 expired, end", p.got("R2.3"))
		p.get("R3.0", false)
		require.Equal(t, "retry, R3.0.n, R3.0.n error 3 owner lost, end", p.got("R3.0"), "nothing is recorded of it")
		p.get("R4.0", false)
		require.Equal(t, "refused: nothing left, end", p.got("R4.0"), "no id of it was issued")

		p.post("1", 0, core.SSE) // the id is free
		p.reply("1", "one")
		require.Equal(t, "retry, R1.0.n, R1.1 one, end", p.got("post 1"))
		at, ok := p.s.Snapshot()
		require.True(t, ok)
		require.True(t, at.Ready && at.Polls && at.Version == "2025-11-25")
		var seen []string
		for _, st := range at.Streams[1:] {
			seen = append(seen, fmt.Sprintf("%d %s %s %s %d", st.Number, st.Method, st.RequestID, st.State, st.Events))
		}
		require.ElementsMatch(t, []string{
			"2 tools/call 1 sealed 2", "3 tools/call 2 sealed 2", "4 tools/call 3 sealed 0", "5 tools/call 1 sealed 1",
		}, seen)

		<-time.After(2 * time.Hour)
		p.get("R2.0", false)
		require.Equal(t, "retry, R2.0.n, R2.1 error 2 expired, end", p.got("R2.0"), "it is kept for Retain")
		usage, _ := eventstore.AccountantOf(p.store).Usage()
		require.Zero(t, usage, "and its log is dropped")
		p.s.End(core.Deleted, nil)
	})
}

// What the store has lost of a stream is not read, and a client that takes long gets the errors when it comes back.
func TestLostStreamsWithLosses(t *testing.T) {
	long := strings.Repeat("x", 5000)
	synctest.Test(t, func(t *testing.T) {
		p := firstProcess(t, eventstore.NewMemory(eventstore.MemoryConfig{}))
		p.post("1", 0, core.SSE)
		for i := range 4 {
			p.emit("1", string(rune('a'+i))+long)
		}
		p = p.next(nil)
		p.get("R1.0", true)
		<-time.After(2 * time.Minute) // CloseAfter
		close(p.served["R1.0"].stuck)
		synctest.Wait()
		require.Equal(t, "retry, R1.0.n, R1.1 a, R1.2 b, retry, end", p.got("R1.0"))
		p.get("R1.2", false)
		require.Equal(t, "retry, R1.2.n, R1.3 c, R1.4 d, R1.4.n error 1 owner lost, end", p.got("R1.2"))

		p = p.next(func(from *Restored) { from.Machine.Streams[0].Last++ }) // more than there is
		p.get("R1.3", false)
		require.Equal(t, "retry, R1.3.n, R1.4 d, R1.4.n error 1 owner lost, end", p.got("R1.3"))
		require.Equal(t, []Kind{StoreLost}, p.host.reports)

		p.get("R1.0", true)
		p.s.End(core.Terminated, nil)
		close(p.served["R1.0"].stuck)
		synctest.Wait()
		require.Equal(t, "retry, R1.0.n, R1.1 a, R1.2 b, R1.6 error 1 ended, end", p.got("R1.0"), "one error")
	})
}

// Streams that the session has no room for are dropped.
func TestRestoredStreamsWithoutRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := firstProcess(t, eventstore.NewMemory(eventstore.MemoryConfig{}))
		for _, id := range []string{"1", "2", "3"} {
			p.post(id, 0, core.SSE)
			p.reply(id, "done")
		}
		for _, c := range p.served {
			c.cancel()
		}
		from := &Restored{Machine: p.s.m.Snapshot(), Streams: make([]RestoredStream, 3)}
		cfg := sharedConfig(p.store)
		cfg.Machine.MaxEnded = 1
		p.s.timer.Stop()
		q := &process{T: t, store: p.store, number: 2, streams: p.streams, names: p.names}
		q.s.Restore(New(cfg), &q.host, Identity{ID: secret, Created: time.Now()}, from)
		q.begin()
		left := 0
		for _, id := range []string{"1", "2", "3"} {
			_, st, err := p.store.Log(eventstore.Key{Session: secret, Stream: StreamName(secret, p.streams[id])}).Read(t.Context(), 0, nil, 0)
			if err == nil && st.Last == 1 {
				left++
			}
		}
		require.Equal(t, 1, left)
		at, _ := q.s.Load()
		require.Equal(t, 2, at.Streams)
		q.s.End(core.Deleted, nil)
	})
}
