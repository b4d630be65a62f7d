package scenario

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/rejoin-mcp/rejoin/bench/internal/load"
	"github.com/rejoin-mcp/rejoin/bench/internal/proc"
	"github.com/rejoin-mcp/rejoin/bench/internal/results"
	"github.com/rejoin-mcp/rejoin/bench/internal/subject"
)

// callsPerSession is how many calls wait in one session, for all subjects.
const callsPerSession = 10

// released is the answer of the tool "hold".
const released = "released"

const collected = "Live bytes after a collection minus those before, for each; the resident set after the collector has returned what it could. "

var held = []results.Metric{
	{Key: "heap", Title: "heap B", Less: true},
	{Key: "objects", Title: "objects", Less: true, Plain: true},
	{Key: "stack", Title: "stack B", Less: true, Plain: true},
	{Key: "rss", Title: "RSS B", Less: true},
	{Key: "goroutines", Title: "goroutines", Less: true, Plain: true},
}

// memories measures what a server holds for sessions, streams and calls in which nothing happens.
func memories() []Scenario {
	kind := func(k, title, text string, n, quick int, more []results.Metric, subjects ...string) Scenario {
		return Scenario{
			ID: "memory-" + k, Title: title, Text: text + " " + collected, Metrics: append(slices.Clone(held), more...), Subjects: subjects, Base: memoryBase, Rounds: 1,
			Run: func(ctx context.Context, env *Env, name string) (map[string]float64, error) {
				return withServer(ctx, proc.Spec{Subject: name, StoreBytes: manyBytes, CPU: proc.AnyCPU}, proc.AnyCPU, func(t target) memoryJob {
					return memoryJob{target: t, Kind: k, Units: Pick(env, n, quick)}
				})
			},
		}
	}
	return []Scenario{
		kind("idle", "10,000 idle sessions", "After initialize and initialized, over 8 connections; then again after one call of each session.", 10_000, 100,
			[]results.Metric{
				{Key: "called", Title: "heap B after a call", Less: true},
				{Key: "called-rss", Title: "RSS B after a call", Less: true},
			}, "bare-json", "bare-sse-store", "gosdk-json", "gosdk-sse-store", "mcpgo-json", "mcpgo-sse-store", "rejoin-json", "rejoin-sse", "rejoin-gosdk-sse",
			"rejoin-mcpgo-sse"),
		kind("get", "5,000 hanging GETs", "Each session has one connected stream, over a connection of its own. The cost of the sessions is not included.", 5000, 50, nil,
			"bare-sse-store", "gosdk-sse", "gosdk-sse-store", "mcpgo-sse", "mcpgo-sse-store", "rejoin-sse", "rejoin-gosdk-sse", "rejoin-mcpgo-sse"),
		kind("post", "5,000 hanging POSTs", fmt.Sprintf("A tool runs for each, and its stream is connected; %d calls in each session, a connection for each call. The cost of the "+
			"sessions is not included. At the end every call must be answered.", callsPerSession), 5000, 50, nil,
			"bare-sse-store", "gosdk-sse", "gosdk-sse-store", "mcpgo-sse", "mcpgo-sse-store", "rejoin-sse", "rejoin-gosdk-sse", "rejoin-mcpgo-sse"),
		kind("parked", "5,000 parked calls", fmt.Sprintf("The tool has disconnected its client and still runs, the response has ended, and the client's connection is closed; %d calls in "+
			"each session. The cost of the sessions is not included. At the end all calls are answered while no client is connected; then 50 clients poll, and must get their answers.",
			callsPerSession), 5000, 60,
			[]results.Metric{
				{Key: "answered", Title: "heap B once answered", Less: true},
				{Key: "answered-goroutines", Title: "goroutines once answered", Less: true, Plain: true},
			}, "bare-sse-store", "gosdk-sse-store", "rejoin-sse", "rejoin-gosdk-sse", "rejoin-mcpgo-sse"),
		kind("tasks", "5,000 tasks", "Calls of version 2026-07-28 whose tools still run; each client has got a task, and its connection is closed. Then all tools end, and the results "+
			"wait to be fetched. At the end every result is fetched: `lost` counts those that did not come.", 5000, 60, taskMemoryMetrics,
			taskSubjects...),
	}
}

// memoryBase is the hand-written server that does the same.
func memoryBase(name string) string {
	s, _ := subject.Find(name)
	if s.Stream {
		return "bare-sse-store"
	}
	return "bare-json"
}

type memoryJob struct {
	target

	Kind  string
	Units int
}

var _ = proc.Work(func(ctx context.Context, j memoryJob) (map[string]float64, error) {
	ctl, err := proc.Connect(j.Admin)
	if err != nil {
		return nil, err
	}
	defer func() { _ = ctl.Close() }()
	m := memory{memoryJob: j, ctl: ctl, values: map[string]float64{}}
	switch j.Kind {
	case "idle":
		err = m.idle(ctx)
	case "get":
		err = m.hanging(ctx, m.listen)
	case "post":
		err = m.hanging(ctx, m.wait)
	case "parked":
		err = m.parked(ctx)
	case "tasks":
		err = m.tasks(ctx)
	default:
		err = errors.New("no such kind")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", j.Kind, err)
	}
	return m.values, nil
})

// memory is one measurement.
type memory struct {
	memoryJob

	ctl      *proc.Control
	base     proc.Sample
	sessions []string
	values   map[string]float64
}

// measure waits until the server has at least so many goroutines more than at the base, and samples it.
func (m *memory) measure(ctx context.Context, goroutines int) (proc.Sample, error) {
	if err := settled(ctx, m.ctl, m.base.Goroutines+goroutines); err != nil {
		return proc.Sample{}, err
	}
	return m.ctl.Sample(true)
}

func (m *memory) perUnit(now, base int64) float64 { return float64(now-base) / float64(m.Units) }

// note records what the server holds, less what it held at the base, for each unit.
func (m *memory) note(s proc.Sample) {
	m.values["heap"] = m.perUnit(s.Heap, m.base.Heap)
	m.values["objects"] = m.perUnit(s.Objects, m.base.Objects)
	m.values["stack"] = m.perUnit(s.Stack, m.base.Stack)
	m.values["rss"] = m.perUnit(s.RSS, m.base.RSS)
	m.values["goroutines"] = m.perUnit(int64(s.Goroutines), int64(m.base.Goroutines))
}

// release lets the tools that hold calls answer, and records what the server holds then.
func (m *memory) release(ctx context.Context) (s proc.Sample, err error) {
	if err := m.ctl.OpenGate(); err != nil {
		return s, err
	}
	if s, err = m.measure(ctx, 0); err != nil {
		return s, err
	}
	m.values["answered"] = m.perUnit(s.Heap, m.base.Heap)
	m.values["answered-goroutines"] = m.perUnit(int64(s.Goroutines), int64(m.base.Goroutines))
	return s, nil
}

// prepare opens the sessions and takes the base.
func (m *memory) prepare(ctx context.Context, sessions int) (err error) {
	if m.sessions, err = m.open(ctx, sessions); err != nil {
		return err
	}
	m.base, err = m.measure(ctx, 0)
	return err
}

// idle measures idle sessions, before and after one call in each.
func (m *memory) idle(ctx context.Context) error {
	if err := m.prepare(ctx, 1); err != nil {
		return err
	}
	sessions, err := m.open(ctx, m.Units)
	if err != nil {
		return err
	}
	s, err := m.measure(ctx, 0)
	if err != nil {
		return err
	}
	m.note(s)
	err = m.each(ctx, m.Units, 8, func(c *load.Conn, i int) error {
		return answered(c, load.Post(sessions[i], load.Call(1, subject.Echo, `{"text":"hello"}`)), 1, "hello")
	})
	if err != nil {
		return err
	}
	if s, err = m.measure(ctx, 0); err != nil {
		return err
	}
	m.values["called"] = m.perUnit(s.Heap, m.base.Heap)
	m.values["called-rss"] = m.perUnit(s.RSS, m.base.RSS)
	return nil
}

// answered sends a request and checks its answer, which is JSON or a stream.
func answered(c *load.Conn, raw []byte, id int, text string) error {
	if err := c.Send(raw); err != nil {
		return err
	}
	return readAnswer(c, id, text)
}

func readAnswer(c *load.Conn, id int, text string) error {
	h, err := c.Head()
	if err != nil {
		return err
	}
	got, err := c.Answer(h)
	if err == nil && (h.Status != http.StatusOK || !isAnswer(got, id, text)) {
		err = fmt.Errorf("status %d, not the answer %q: %.200s", h.Status, text, got)
	}
	return err
}

// pending is a kind of request that is not answered until the gate is open.
type pending struct {
	sessions int // how many are needed
	raw      func(unit int) []byte
	began    func(c *load.Conn) error           // reads the head of the answer, if it comes before the gate is open
	finish   func(c *load.Conn, unit int) error // after the gate has opened
}

// listen is a GET of the standalone stream, of which a session has one.
func (m *memory) listen() pending {
	return pending{
		sessions: m.Units,
		raw:      func(i int) []byte { return load.Get(m.sessions[i], "") },
		began: func(c *load.Conn) error {
			h, err := c.Head()
			if err == nil && (h.Status != http.StatusOK || !h.Stream) {
				err = fmt.Errorf("no stream, but status %d", h.Status)
			}
			return err
		},
		finish: func(*load.Conn, int) error { return nil },
	}
}

// wait is a call that runs. Not every server sends a head before the first event.
func (m *memory) wait() pending {
	return pending{
		sessions: (m.Units + callsPerSession - 1) / callsPerSession,
		raw:      m.hold(false),
		began:    func(*load.Conn) error { return nil },
		finish:   func(c *load.Conn, i int) error { return readAnswer(c, i+1, released) },
	}
}

func (m *memory) hold(closes bool) func(unit int) []byte {
	return func(i int) []byte {
		return load.Post(m.sessions[i/callsPerSession], load.Call(i+1, subject.Hold, fmt.Sprintf(`{"close":%v}`, closes)))
	}
}

func (m *memory) hanging(ctx context.Context, what func() pending) error {
	if err := needFiles(m.Units); err != nil {
		return err
	}
	h := what()
	if err := m.prepare(ctx, h.sessions); err != nil {
		return err
	}
	conns := make([]*load.Conn, m.Units)
	for i := range conns {
		c, hangUp, err := m.dial(ctx)
		if err != nil {
			return err
		}
		defer hangUp()
		conns[i] = c
		if err := c.Send(h.raw(i)); err != nil {
			return err
		}
		if err := h.began(c); err != nil {
			return fmt.Errorf("%d of %d: %w", i, m.Units, err)
		}
	}
	s, err := m.measure(ctx, m.Units)
	if err != nil {
		return err
	}
	m.note(s)
	if err := m.ctl.OpenGate(); err != nil {
		return err
	}
	for i, c := range conns {
		if err := h.finish(c, i); err != nil {
			return fmt.Errorf("%d of %d, when released: %w", i, m.Units, err)
		}
	}
	return ctx.Err()
}

// parked measures calls whose clients were disconnected. When the answers are there, it fetches some of them.
func (m *memory) parked(ctx context.Context) error {
	if err := m.prepare(ctx, (m.Units+callsPerSession-1)/callsPerSession); err != nil {
		return err
	}
	hold := m.hold(true)
	cursors := make([]string, m.Units)
	err := m.each(ctx, m.Units, 16, func(c *load.Conn, i int) error {
		var err error
		cursors[i], err = park(c, hold(i), i+1, released)
		return err
	})
	if err != nil {
		return err
	}
	s, err := m.measure(ctx, m.Units) // a tool that waits is one goroutine in each of these servers
	if err != nil {
		return err
	}
	m.note(s)
	if _, err := m.release(ctx); err != nil {
		return err
	}
	const sample = 50
	return m.each(ctx, min(sample, m.Units), 4, func(c *load.Conn, k int) error {
		i := k * m.Units / min(sample, m.Units)
		if err := answered(c, load.Get(m.sessions[i/callsPerSession], cursors[i]), i+1, released); err != nil {
			return fmt.Errorf("resumed: %w", err)
		}
		return nil
	})
}

// park makes a call whose tool closes its stream, and returns the last event id.
func park(c *load.Conn, raw []byte, id int, text string) (cursor string, err error) {
	if err := start(c, raw); err != nil {
		return "", err
	}
	var seen trace
	if err := seen.read(c, id, text, nil); err != nil {
		return "", err
	}
	if seen.answer || seen.last == "" {
		return "", fmt.Errorf("it was not let go: answered %v, cursor %q", seen.answer, seen.last)
	}
	return seen.last, nil
}
