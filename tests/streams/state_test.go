package streams_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// scene is one call with its client and its tool.
type scene struct {
	t    *testing.T
	c    *rejointest.Client
	call *rejointest.Call
	tool *kit.ManualTool
	err  error // of the last action of the test
}

// states are the states of a stream, with the way to each. Those after the first are not possible in mode JSON.
var states = map[string]func(*scene){
	"undecided": func(*scene) {},
	"stranded":  func(s *scene) { s.call.Cut() },
	"attached":  func(s *scene) { _ = s.tool.Progress(1, 0, "") },
	"none":      func(s *scene) { _ = s.tool.Progress(1, 0, ""); synctest.Wait(); s.call.Cut() },
}

// stateTable is the table of ARCHITECTURE.md as it looks on the wire: the action, the state, and the summary of the call's last connection. In the state
// none the client polls after the action. <greet> is the beginning of a stream, at its position: a primer, or a comment; <retry> is what comes before a
// close, if the client polls. json is the summary in mode JSON; "": as in the other modes. err is what the tool's own call returns.
var stateTable = []struct {
	input string
	do    func(*scene)
	cells []stateCell
}{
	{"nothing", func(*scene) {}, []stateCell{
		{state: "undecided", auto: "open"},
		{state: "stranded", auto: "cut"},
		{state: "attached", auto: "200 sse <greet>@0 1:progress open"},
		{state: "none", auto: "200 sse <greet>@1 open"},
	}},
	{"last response", func(s *scene) { s.tool.Returns("x") }, []stateCell{
		{state: "undecided", auto: "200 result answered", sse: "200 sse <greet>@0 1:result closed", json: "200 result answered"},
		{state: "stranded", auto: "cut"},
		{state: "attached", auto: "200 sse <greet>@0 1:progress 2:result closed"},
		{state: "none", auto: "200 sse <greet>@1 2:result closed"},
	}},
	{"notification", func(s *scene) { s.err = s.tool.Notify("notifications/message", nil) }, []stateCell{
		{state: "undecided", auto: "200 sse <greet>@0 1:message open", json: "open", standalone: "200 sse <greet>@0 1:message open"},
		{state: "stranded", auto: "cut"},
		{state: "attached", auto: "200 sse <greet>@0 1:progress 2:message open"},
		{state: "none", auto: "200 sse <greet>@1 2:message open"},
	}},
	{"progress", func(s *scene) { s.err = s.tool.Progress(2, 0, "") }, []stateCell{
		{state: "undecided", auto: "200 sse <greet>@0 1:progress open", json: "open", standalone: "200 sse <greet>@0 open"},
		{state: "stranded", auto: "cut"},
		{state: "attached", auto: "200 sse <greet>@0 1:progress 2:progress open"},
		{state: "none", auto: "200 sse <greet>@1 2:progress open"},
	}},
	{"CloseStream", func(s *scene) { s.err = s.tool.CloseStream(0) }, []stateCell{
		{state: "undecided", auto: "200 sse primer@0 retry closed", legacy: "open", legacyErr: rejoin.ErrNotResumable, json: "open", jsonErr: rejoin.ErrNotResumable},
		{state: "stranded", auto: "cut"},
		{state: "attached", auto: "200 sse primer@0 1:progress retry closed", legacy: "200 sse comment 1:progress open", legacyErr: rejoin.ErrNotResumable},
		{state: "none", auto: "200 sse <greet>@1 open"},
	}},
	{"CloseAfter", func(s *scene) {
		s.err = s.tool.SetPolicy(rejoin.Policy{CloseAfter: time.Minute})
		kit.Elapse(time.Minute)
	}, []stateCell{
		{state: "undecided", auto: "200 sse primer@0 retry closed", legacy: "open", json: "open"},
		{state: "stranded", auto: "cut"},
		{state: "attached", auto: "200 sse primer@0 1:progress retry closed", legacy: "200 sse comment 1:progress open"},
		{state: "none", auto: "200 sse <greet>@1 open"},
	}},
	{"connection lost, then the last response", func(s *scene) { s.call.Cut(); s.tool.Returns("x") }, []stateCell{
		{state: "undecided", auto: "cut"},
		{state: "attached", auto: "200 sse <greet>@0 1:progress cut"},
	}},
	{"resume", func(s *scene) { s.call.Poll() }, []stateCell{
		{state: "attached", auto: "200 sse <greet>@1 open", old: "200 sse <greet>@0 1:progress <retry>closed"},
		{state: "none", auto: "200 sse <greet>@1 open", old: "200 sse <greet>@1 <retry>closed"}, // the client polls twice
	}},
	{"notifications/cancelled", func(s *scene) { s.call.Cancel("enough") }, []stateCell{
		{state: "undecided", auto: "200 sse closed", json: "202 answered", cause: rejoin.ErrCancelled},
		{state: "stranded", auto: "cut", cause: rejoin.ErrCancelled},
		{state: "attached", auto: "200 sse <greet>@0 1:progress closed", cause: rejoin.ErrCancelled},
		{state: "none", auto: "204 sse answered", cause: rejoin.ErrCancelled},
	}},
	{"MaxRuntime", func(s *scene) {
		s.err = s.tool.SetPolicy(rejoin.Policy{MaxRuntime: time.Minute})
		kit.Elapse(time.Minute)
	}, []stateCell{
		{
			state: "undecided", auto: "200 error(-32000,2) max_runtime answered", sse: "200 sse <greet>@0 1:error(-32000,2) max_runtime closed",
			json: "200 error(-32000,2) max_runtime answered", cause: rejoin.ErrMaxRuntime,
		},
		{state: "stranded", auto: "cut", cause: rejoin.ErrMaxRuntime},
		{state: "attached", auto: "200 sse <greet>@0 1:progress 2:error(-32000,2) max_runtime closed", cause: rejoin.ErrMaxRuntime},
		{state: "none", auto: "200 sse <greet>@1 2:error(-32000,2) max_runtime closed", cause: rejoin.ErrMaxRuntime},
	}},
	{"AbandonAfter", func(*scene) { kit.Elapse(11 * time.Minute) }, []stateCell{
		{state: "undecided", auto: "open"},
		{state: "stranded", auto: "cut", cause: rejoin.ErrAbandoned},
		{state: "attached", auto: "200 sse <greet>@0 1:progress open"},
		{state: "none", auto: "200 sse <greet>@1 2:error(-32000,2) abandoned closed", cause: rejoin.ErrAbandoned},
	}},
	{"Close", func(s *scene) { s.c.Server().Close() }, []stateCell{
		{
			state: "undecided", auto: "200 error(-32000,2) shutdown answered", sse: "200 sse <greet>@0 1:error(-32000,2) shutdown closed",
			json: "200 error(-32000,2) shutdown answered", cause: rejoin.ErrShutdown,
		},
		{state: "stranded", auto: "cut", cause: rejoin.ErrShutdown},
		{state: "attached", auto: "200 sse <greet>@0 1:progress 2:error(-32000,2) shutdown closed", cause: rejoin.ErrShutdown},
		{state: "none", auto: "404 error(-32001,null) answered", cause: rejoin.ErrShutdown}, // the session has ended
	}},
	{"the end of a drain", func(s *scene) {
		done := kit.Drain(s.t, s.c.Server(), time.Minute)
		kit.Elapse(time.Minute)
		require.Equal(s.t, &rejoin.DrainError{Running: 1}, <-done)
	}, []stateCell{
		{
			state: "undecided", auto: "200 error(-32000,2) shutdown answered", sse: "200 sse <greet>@0 1:error(-32000,2) shutdown closed",
			json: "200 error(-32000,2) shutdown answered", cause: rejoin.ErrShutdown,
		},
		{state: "stranded", auto: "cut", cause: rejoin.ErrShutdown},
		{state: "attached", auto: "200 sse <greet>@0 1:progress 2:error(-32000,2) shutdown closed", cause: rejoin.ErrShutdown},
		{state: "none", auto: "404 error(-32001,null) answered", cause: rejoin.ErrShutdown}, // the session has ended
	}},
	{"DELETE", func(s *scene) { s.c.Delete() }, []stateCell{
		{state: "undecided", auto: "404 error(-32001,null) answered", cause: rejoin.ErrSessionEnded},
		{state: "stranded", auto: "cut", cause: rejoin.ErrSessionEnded},
		{state: "attached", auto: "200 sse <greet>@0 1:progress closed", cause: rejoin.ErrSessionEnded},
		{state: "none", auto: "404 error(-32001,null) answered", cause: rejoin.ErrSessionEnded},
	}},
	{"the app's end of the session", func(s *scene) { s.tool.Session().End(nil) }, endedCells},
	{"the operator's end of the session", func(s *scene) { _ = s.c.Server().EndSession(s.tool.Session().Ref()) }, endedCells},
}

// endedCells are the cells of a session that the server ends: a client that waits for a response is told.
var endedCells = []stateCell{
	{
		state: "undecided", auto: "200 error(-32000,2) ended answered", sse: "200 sse <greet>@0 1:error(-32000,2) ended closed",
		json: "200 error(-32000,2) ended answered", cause: rejoin.ErrSessionEnded,
	},
	{state: "stranded", auto: "cut", cause: rejoin.ErrSessionEnded},
	{state: "attached", auto: "200 sse <greet>@0 1:progress 2:error(-32000,2) ended closed", cause: rejoin.ErrSessionEnded},
	{state: "none", auto: "404 error(-32001,null) answered", cause: rejoin.ErrSessionEnded}, // the session has ended
}

type stateCell struct {
	state              string
	auto, sse, json    string // sse "": as auto
	legacy             string // in modes Auto and SSE; "": as for clients that poll
	old                string // the summary of the connection before
	standalone         string // the answer to a GET without a cursor, in mode JSON
	legacyErr, jsonErr error
	cause              error // the cause of the tool's context
}

// want returns what a cell promises to one kind of client in one mode.
func (c *stateCell) want(version string, mode rejoin.Mode) (now, old string, err error) {
	now, old = c.auto, c.old
	if mode == rejoin.ModeSSE && c.sse != "" {
		now = c.sse
	}
	if version == kit.Legacy {
		err = c.legacyErr
		if c.legacy != "" {
			now = c.legacy
		}
	}
	if mode == rejoin.ModeJSON && c.json != "" {
		now, err = c.json, c.jsonErr
	}
	return greeted(now, version), greeted(old, version), err
}

func greeted(s, version string) string {
	if version == kit.Legacy {
		return strings.NewReplacer("<greet>@0", "comment", "<greet>@1", "comment", "<retry>", "").Replace(s)
	}
	return strings.NewReplacer("<greet>", "primer", "<retry>", "retry ").Replace(s)
}

func TestStateTableOnTheWire(t *testing.T) {
	modes := map[string]rejoin.Mode{"Auto": rejoin.ModeAuto, "SSE": rejoin.ModeSSE, "JSON": rejoin.ModeJSON}
	for _, row := range stateTable {
		t.Run(row.input, func(t *testing.T) {
			for _, cell := range row.cells {
				for _, version := range []string{kit.Polling, kit.Legacy} {
					for name, mode := range modes {
						if mode == rejoin.ModeJSON && (cell.state == "attached" || cell.state == "none") {
							continue
						}
						t.Run(cell.state+", "+version+", "+name, func(t *testing.T) {
							kit.Bubble(t, func(t *testing.T) { walk(t, row.do, &cell, version, mode) })
						})
					}
				}
			}
		})
	}
}

func walk(t *testing.T, do func(*scene), cell *stateCell, version string, mode rejoin.Mode) {
	app, next := kit.ManualTools()
	s := &scene{t: t, c: kit.New(t, app, rejointest.Config{
		Version: version, Server: rejoin.Config{KeepAlive: -1, Policy: rejoin.Policy{Mode: mode, StreamAfter: -1}},
	})}
	s.call = s.c.CallTool("x", nil)
	s.tool = next()
	states[cell.state](s)
	synctest.Wait()
	do(s)
	synctest.Wait()
	if cell.state == "none" {
		s.call.Poll()
	}
	now, old, err := cell.want(version, mode)
	require.Equal(t, now, kit.Last(s.call), "%s", s.call)
	kit.RequireHead(t, s.call.Header(), headOfSummary(now)...)
	if old != "" {
		lines := kit.Summaries(s.call)
		require.Equal(t, old, lines[len(lines)-2], "%s", s.call)
	}
	require.Equal(t, err, s.err)
	if cause := s.tool.Cause(); cause == nil || cell.cause != nil {
		require.Equal(t, cell.cause, cause)
	}
	if cell.standalone != "" && mode == rejoin.ModeJSON {
		require.Equal(t, greeted(cell.standalone, version), kit.Last(s.c.Listen()), "in mode JSON")
	}
	if cell.state == "stranded" && s.tool.Cause() != nil {
		require.LessOrEqual(t, s.c.Server().Stats().Streams, int64(1), "of a stream that nobody can come back for, nothing is kept")
	}
}

// headOfSummary returns the header that belongs to a summary.
func headOfSummary(summary string) []string {
	switch status, rest, _ := strings.Cut(summary, " "); {
	case strings.HasPrefix(rest, "sse") && status == "200":
		return kit.StreamHead
	case strings.HasPrefix(rest, "sse"): // 204
		return []string{"Content-Type", "text/event-stream"}
	case strings.HasPrefix(rest, "result"), strings.HasPrefix(rest, "error"):
		return []string{"Content-Type", "application/json"}
	}
	return nil
}

// Invariant 2: a plain JSON answer is not recorded, and nothing of it is kept.
func TestAPlainAnswerIsNotRecorded(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{})
		before := c.Server().Stats()
		for range 10 {
			call := c.CallTool("x", nil)
			next().Returns("done")
			require.Equal(t, "200 result answered", kit.Last(call))
		}
		require.Equal(t, before, c.Server().Stats())
	})
}

// The head of an answer whose form is undecided is sent after StreamAfter at the latest.
func TestStreamAfter(t *testing.T) {
	for _, test := range []struct {
		version string
		policy  rejoin.Policy
		after   time.Duration
		want    string
	}{
		{kit.Polling, rejoin.Policy{}, 100 * time.Millisecond, "200 sse primer@0 open"},
		{kit.Legacy, rejoin.Policy{}, 100 * time.Millisecond, "200 sse comment open"},
		{kit.Polling, rejoin.Policy{StreamAfter: time.Minute}, time.Minute, "200 sse primer@0 open"},
		{kit.Polling, rejoin.Policy{Mode: rejoin.ModeSSE}, time.Millisecond, "200 sse primer@0 open"},
		{kit.Legacy, rejoin.Policy{Mode: rejoin.ModeSSE}, time.Millisecond, "200 sse comment open"},
		{kit.Polling, rejoin.Policy{Mode: rejoin.ModeJSON}, time.Hour, "open"},
		{kit.Legacy, rejoin.Policy{StreamAfter: -1}, time.Hour, "open"},
	} {
		kit.Bubble(t, func(t *testing.T) {
			app, next := kit.ManualTools()
			c := kit.New(t, app, rejointest.Config{Version: test.version, Server: rejoin.Config{Policy: test.policy}})
			call := c.CallTool("x", nil)
			tool := next()
			kit.Elapse(test.after - time.Nanosecond)
			require.Equal(t, "open", kit.Last(call), "%+v", test)
			require.True(t, tool.Connected())
			kit.Elapse(time.Nanosecond)
			require.Equal(t, test.want, kit.Last(call), "%+v", test)
			require.Equal(t, "no-cache, no-transform", headOf(call, "Cache-Control"))
			require.Equal(t, "no", headOf(call, "X-Accel-Buffering"))
		})
	}
}

// headOf returns a field of the header of a call's stream, or the expected value if there is no header.
func headOf(call *rejointest.Call, name string) string {
	if call.Header() == nil {
		return map[string]string{"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}[name]
	}
	return call.Header().Get(name)
}
