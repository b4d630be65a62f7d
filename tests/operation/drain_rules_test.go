package operation_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/eventstore/storetest"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// A drain reports what is left, in requests of every kind: each request of a batch counts, and those whose client can never poll.
func TestDrainCountsRequests(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		id := ""
		app := kit.BothEras{Fake: &kit.Fake{OnRequest: func(c *rejoin.Call) {
			id = c.Handle().Session().ID()
			if c.Method() != "x" {
				kit.Accept(c)
			}
		}}, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })}
		c := rejointest.New(t, app, rejointest.Config{Version: kit.Batches, Server: rejoin.Config{Eras: rejoin.EraBoth}})
		kit.Serve(c.Server(), kit.InSession(t, id, `{"jsonrpc":"2.0","id":"one","method":"x"}`))
		kit.Serve(c.Server(), kit.InSession(t, id, "["+kit.CallBody(`"a"`, "{}")+","+strings.Replace(kit.CallBody(`"b"`, "{}"), `"x"`, `"now"`, 1)+","+kit.CallBody(`"c"`, "{}")+"]"))
		kit.Serve(c.Server(), kit.Request(t, http.MethodPost, kit.ModernPing))
		c.Start("x", nil).Cut() // before it got an id
		require.Equal(t, &rejoin.DrainError{Running: 1 + 2 + 1 + 1}, <-kit.Drain(t, c.Server(), time.Minute))
		synctest.Wait()
		require.Zero(t, c.Server().Stats().Sessions)
	})
}

// A drain waits until a response was written, not only recorded: as long as a slow client reads.
func TestDrainWaitsForAResponseToBeWritten(t *testing.T) {
	for _, thaws := range []bool{true, false} {
		kit.Bubble(t, func(t *testing.T) {
			app, next := kit.ManualTools()
			c := rejointest.New(t, app, rejointest.Config{Server: rejoin.Config{WriteTimeout: time.Hour}})
			call := c.CallTool("x", nil)
			tool := next()
			require.NoError(t, tool.Progress(1, 0, ""))
			call.Freeze()
			tool.Returns(strings.Repeat("x", 1<<20))
			done := kit.Drain(t, c.Server(), time.Minute)
			kit.Elapse(time.Second)
			require.Empty(t, done)
			if thaws {
				call.Thaw()
				require.Len(t, string(call.Result()), 1<<20+2)
				require.NoError(t, <-done)
				return
			}
			require.Equal(t, &rejoin.DrainError{Unfetched: 1}, <-done)
		})
	}
}

// The last request may end at the moment at which the drain's time is over. Then nothing is left, and nothing is reported.
func TestDrainThatEndsJustInTime(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		calls := make(chan *rejoin.Call, 1)
		app := &kit.Fake{OnRequest: func(c *rejoin.Call) {
			if c.Method() != "x" {
				kit.Accept(c)
				return
			}
			calls <- c
		}}
		for range 20 { // a select chooses at random
			c := rejointest.New(t, app, rejointest.Config{})
			c.Start("x", nil)
			call := <-calls
			require.NoError(t, c.Server().Drain(overWhenAsked{context.Background(), func() { _ = call.Reply(nil) }}))
			require.EqualValues(t, 1, c.Server().Stats().Sessions, "a clean drain ends none")
		}
	})
}

// overWhenAsked is a context that ends, and does something else, when Done is called.
type overWhenAsked struct {
	context.Context
	then func()
}

func (c overWhenAsked) Done() <-chan struct{} {
	c.then()
	over := make(chan struct{})
	close(over)
	return over
}

// A drain whose time is already over returns at once: nil, or an error with everything that runs.
func TestDrainWithoutTime(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		app, next := kit.ManualTools()
		c := rejointest.New(t, app, rejointest.Config{})
		call := c.CallTool("x", nil)
		next()
		require.Equal(t, &rejoin.DrainError{Running: 1}, c.Server().Drain(ctx))
		require.JSONEq(t, `{"reason":"shutdown"}`, string(call.Err().Data))
		require.NoError(t, c.Server().Drain(ctx), "after Close there is nothing")
		require.NoError(t, c.Server().Drain(context.Background()))

		idle := rejointest.New(t, app, rejointest.Config{})
		require.NoError(t, idle.Server().Drain(ctx))
		require.EqualValues(t, 1, idle.Server().Stats().Sessions)
	})
}

// A running initialize is completed: its client gets a session, in which it is told to go elsewhere.
func TestDrainDuringInitialize(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		var first *rejoin.Call
		s := kit.NewServer(t, &kit.Fake{OnRequest: func(c *rejoin.Call) { first = c }}, rejoin.Config{})
		w := kit.Serve(s, kit.Request(t, http.MethodPost, kit.Initialize))
		done := kit.Drain(t, s, time.Minute)
		require.Empty(t, done)
		kit.Accept(first)
		require.Equal(t, "200 result ended", w.Summary())
		require.NoError(t, <-done)
		id := w.Header().Get("Mcp-Session-Id")
		require.Equal(t, "202 ended", kit.Serve(s, kit.InSession(t, id, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)).Summary())
		require.Equal(t, `503 error(-32000,"mine") ended`, kit.Serve(s, kit.InSession(t, id, kit.Ping)).Summary())
		require.Equal(t, "204 ended", kit.Serve(s, inSessionBy(t, http.MethodDelete, id)).Summary())
	})
}

// inSessionBy is a request of a session without a body.
func inSessionBy(t *testing.T, method, session string) *http.Request {
	t.Helper()
	r := kit.Request(t, method, "")
	r.Header.Set("Mcp-Session-Id", session)
	return r
}

// A drain does not disconnect the client of a running call, with any store: no other process could serve it.
func TestADrainHandsNobodyOver(t *testing.T) {
	for _, test := range []struct {
		name, version string
		policy        rejoin.Policy
		speaks        bool
		before, after string
	}{
		{name: "undecided", policy: rejoin.Policy{StreamAfter: -1}, before: "open", after: "open"},
		{name: "attached", speaks: true, before: "200 sse primer@0 1:progress open", after: "200 sse primer@0 1:progress open"},
		{name: "mode JSON", policy: rejoin.Policy{Mode: rejoin.ModeJSON}, before: "open", after: "open"},
		{name: "cannot poll", version: kit.Legacy, speaks: true, before: "200 sse comment 1:progress open", after: "200 sse comment 1:progress open"},
	} {
		t.Run(test.name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				app, next := kit.ManualTools()
				c := rejointest.New(t, app, rejointest.Config{Version: test.version, Server: rejoin.Config{
					Policy: test.policy, Store: storetest.Faulty(eventstore.NewMemory(eventstore.MemoryConfig{}), nil),
				}})
				call := c.CallTool("x", nil)
				tool := next()
				if test.speaks {
					require.NoError(t, tool.Progress(1, 0, ""))
				}
				require.Equal(t, test.before, kit.Last(call))
				done := kit.Drain(t, c.Server(), 0)
				require.Equal(t, test.after, kit.Last(call))
				require.NoError(t, tool.Cause())
				require.Empty(t, done)
				tool.Returns("done")
				require.Equal(t, `"done"`, string(call.Result()))
				require.NoError(t, <-done)
			})
		})
	}
}

// Several goroutines close a server, and requests come meanwhile: every request is answered, the context of every tool ends with the cause, and no
// session is left.
func TestClosesAtOnce(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		before := len(kit.Goroutines())
		var told kit.Ends
		app := told.App()
		s := kit.NewServer(t, app, rejoin.Config{})
		var ids []string
		for range 20 {
			ids = append(ids, kit.Serve(s, kit.Request(t, http.MethodPost, kit.Initialize)).Header().Get("Mcp-Session-Id"))
		}
		var writers []*kit.Response
		for _, id := range ids {
			writers = append(writers, kit.Serve(s, kit.InSession(t, id, `{"jsonrpc":"2.0","id":"mine","method":"x"}`)), kit.Serve(s, inSessionBy(t, http.MethodGet, id)))
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		var all sync.WaitGroup
		late := make([]*kit.Response, len(ids))
		for i, id := range ids {
			late[i] = &kit.Response{Head: http.Header{}}
			all.Go(s.Close)
			all.Go(func() { s.Serve(late[i], kit.InSession(t, id, `{"jsonrpc":"2.0","id":"late","method":"x"}`)) })
			all.Go(func() { _ = s.Drain(ctx) })
		}
		all.Wait()
		synctest.Wait()
		for i, w := range writers {
			want := `200 error(-32000,"mine") shutdown ended`
			if i%2 == 1 {
				want = "200 sse primer@0 retry ended"
			}
			require.Equal(t, want, w.Summary())
		}
		for _, w := range late {
			require.Contains(t, []string{ // the answers before, during and after Close
				`200 error(-32000,"late") shutdown open`, `503 error(-32000,"late") open`, "404 error(-32001,null) open",
			}, w.Summary())
		}
		require.Len(t, told.Ended, len(ids))
		for _, cause := range append(told.Cancelled, told.Ended...) {
			require.Equal(t, rejoin.ErrShutdown, cause)
		}
		stats := s.Stats()
		require.Zero(t, stats.Sessions+stats.Streams+stats.Connections+stats.StoredBytes, "%+v", stats)
		require.Len(t, kit.Goroutines(), before)
	})
}

// A tool that returns as soon as its context ends does not answer before the server: the client is told why.
func TestTheServerAnswersForATool(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		given := make(chan error, 64)
		app := &kit.Fake{OnRequest: func(c *rejoin.Call) {
			if c.Method() == "initialize" {
				kit.Accept(c)
				return
			}
			context.AfterFunc(c.Context(), func() { given <- c.Fail(rejoin.Errorf(-1, "I was told to stop")) })
		}}
		for range 5 { // a race would be lost now and then
			c := rejointest.New(t, app, rejointest.Config{})
			var calls []*rejointest.Call
			for range 64 {
				calls = append(calls, c.Start("x", nil))
			}
			c.Server().Close()
			for _, call := range calls {
				require.JSONEq(t, `{"reason":"shutdown"}`, string(call.Err().Data))
				require.Equal(t, rejoin.ErrEnded, <-given)
			}
		}
	})
}
