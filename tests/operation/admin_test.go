package operation_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// statesOf returns the states of a session's streams, the standalone one first.
func statesOf(t *testing.T, c *rejointest.Client) (all []string) {
	t.Helper()
	for _, s := range kit.Session(t, c).Streams {
		all = append(all, s.State)
	}
	return all
}

func TestSessionsShowsEachStreamsState(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := rejointest.New(t, app, rejointest.Config{
			Server: rejoin.Config{
				Node: "n-1", Policy: rejoin.Policy{StreamAfter: -1}, KeepAlive: -1,
				Principal: func(*http.Request) string { return "ann" },
			},
		})
		began := time.Now()
		require.Equal(t, []string{"parked"}, statesOf(t, c))
		c.Listen()
		kit.Elapse(time.Minute)
		call := c.CallTool("x", nil)
		tool := next()
		require.Equal(t, []string{"live", "pending"}, statesOf(t, c))
		require.NoError(t, tool.Progress(1, 0, ""))
		require.Equal(t, []string{"live", "live"}, statesOf(t, c))
		require.NoError(t, tool.CloseStream(0))
		require.Equal(t, []string{"live", "parked"}, statesOf(t, c))
		kit.Elapse(call.WaitClosed())
		call.Poll()
		require.Equal(t, []string{"live", "live"}, statesOf(t, c))
		call.Cut()
		require.Equal(t, []string{"live", "parked"}, statesOf(t, c))
		tool.Returns("done")
		require.Equal(t, []string{"live", "sealed"}, statesOf(t, c))

		info := kit.Session(t, c)
		require.Equal(t, rejoin.SessionRef("n-1-1"), info.Ref)
		require.Equal(t, "ann", info.Principal)
		require.Equal(t, kit.Polling, info.Version)
		require.JSONEq(t, `{"name":"rejointest","version":"1"}`, string(info.Client))
		require.Equal(t, began, info.Created)
		require.False(t, info.Active.Before(began.Add(time.Minute)))
		stream := info.Streams[1]
		require.Equal(t, tool.Stream(), stream.Ref)
		require.Equal(t, "tools/call", stream.Method)
		require.JSONEq(t, "2", string(stream.RequestID))
		require.Equal(t, 2, stream.Events)
		require.NotZero(t, stream.Bytes)
		require.Equal(t, began.Add(time.Minute), stream.Since)
		require.Nil(t, info.Streams[0].RequestID)
		for _, s := range info.Streams {
			require.Regexp(t, `^n-1-1-[0-9]+$`, string(s.Ref), "it goes into a URL as it is")
			require.NotContains(t, call.IDs()[0], string(s.Ref))
		}
		call.Poll()
		call.Result()
		kit.Elapse(10 * time.Minute)
		require.Equal(t, []string{"live"}, statesOf(t, c), "what was dropped is gone")
	})
}

// The iteration over the snapshots works, and may be left early, while sessions come and go.
func TestSessionsMayBeLeftEarly(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		s := kit.NewServer(t, &kit.Fake{}, rejoin.Config{})
		for range 5 {
			_, refused := kit.Open(t, s)
			require.Empty(t, refused)
		}
		n := 0
		for info := range s.Sessions() {
			n++
			require.NoError(t, s.EndSession(info.Ref))
			if n == 3 {
				break
			}
		}
		require.Len(t, kit.Sessions(s), 2)
	})
}

// A Ref is found only as a whole, not by its beginning.
func TestRefsAreToldApart(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		s := kit.NewServer(t, &kit.Fake{}, rejoin.Config{})
		for range 12 {
			_, refused := kit.Open(t, s)
			require.Empty(t, refused)
		}
		for _, info := range kit.Sessions(s) {
			require.NoError(t, s.CloseStream(info.Streams[0].Ref, 0), info.Ref)
			n, err := s.CloseStreams(info.Ref, 0)
			require.NoError(t, err)
			require.Zero(t, n)
		}
		for _, info := range kit.Sessions(s) {
			require.NoError(t, s.EndSession(info.Ref))
		}
		require.Empty(t, kit.Sessions(s))
	})
}

func TestCloseStreamByRef(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := rejointest.New(t, app, rejointest.Config{Server: rejoin.Config{KeepAlive: -1}})
		s := c.Server()
		listen := c.Listen()
		call, other := c.CallTool("x", nil), c.CallTool("x", nil)
		tool := next()
		next()
		kit.Elapse(time.Second)
		require.NoError(t, s.CloseStream(tool.Stream(), time.Minute))
		kit.RequireSpread(t, time.Minute, call.WaitClosed())
		require.Equal(t, 1, other.Open())
		require.NoError(t, s.CloseStream(tool.Stream(), 0), "its client is away already")
		require.NoError(t, s.CloseStream(kit.Session(t, c).Streams[0].Ref, 0))
		require.Equal(t, "200 sse primer@0 retry closed", kit.Last(listen))
		tool.Returns("done")
		require.ErrorIs(t, s.CloseStream(tool.Stream(), 0), rejoin.ErrEnded)
		ref := kit.Session(t, c).Ref
		for _, unknown := range []rejoin.SessionRef{"", "x", ref, ref + "-99", ref + "-", ref + "-1-1", "-1", ref[:len(ref)-1]} {
			require.ErrorIs(t, s.CloseStream(rejoin.StreamRef(unknown), 0), rejoin.ErrUnknown, unknown)
		}
	})
}

func TestCloseStreamsOfASession(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := rejointest.New(t, app, rejointest.Config{Server: rejoin.Config{KeepAlive: -1}})
		s, ref := c.Server(), kit.Session(t, c).Ref
		n, err := s.CloseStreams(ref, 0)
		require.NoError(t, err)
		require.Zero(t, n)
		listen := c.Listen()
		var calls []*rejointest.Call
		for range 3 {
			calls = append(calls, c.CallTool("x", nil))
		}
		kit.Elapse(time.Second)
		calls[0].Cut()
		n, err = s.CloseStreams(ref, time.Minute)
		require.NoError(t, err)
		require.Equal(t, 3, n)
		for _, call := range append(calls[1:], listen) {
			kit.RequireSpread(t, time.Minute, call.WaitClosed())
		}
		stream := next().Stream()
		for _, unknown := range []rejoin.SessionRef{"", "x", rejoin.SessionRef(stream), ref + "-", ref[:len(ref)-1]} {
			_, err := s.CloseStreams(unknown, 0)
			require.ErrorIs(t, err, rejoin.ErrUnknown, unknown)
			require.ErrorIs(t, s.EndSession(unknown), rejoin.ErrUnknown, unknown)
		}
		require.NoError(t, s.EndSession(ref))
		require.ErrorIs(t, s.EndSession(ref), rejoin.ErrUnknown)
		_, err = s.CloseStreams(ref, 0)
		require.ErrorIs(t, err, rejoin.ErrUnknown)
	})
}

// A stream that cannot be closed does not prevent the others from being closed.
func TestCloseStreamsWhereOneCannotBeClosed(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := rejointest.New(t, app, rejointest.Config{Server: rejoin.Config{KeepAlive: -1, PolicyFor: func(r rejoin.RequestInfo, p rejoin.Policy) rejoin.Policy {
			if r.Name == "json" {
				p.Mode = rejoin.ModeJSON
			}
			return p
		}}})
		plain, call := c.CallTool("json", nil), c.CallTool("x", nil)
		next()
		kit.Elapse(time.Second)
		n, err := c.Server().CloseStreams(kit.Session(t, c).Ref, 0)
		require.ErrorIs(t, err, rejoin.ErrNotResumable)
		require.Equal(t, 1, n)
		require.Equal(t, "200 sse primer@0 retry closed", kit.Last(call))
		require.Equal(t, "open", kit.Last(plain))
	})
}

func TestStats(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := rejointest.New(t, app, rejointest.Config{})
		s := c.Server()
		require.Equal(t, rejoin.Stats{Sessions: 1, Streams: 1, Opened: 1}, s.Stats())
		c.Listen()
		call := c.CallTool("x", nil)
		tool := next()
		require.NoError(t, tool.Progress(1, 0, ""))
		got := s.Stats()
		require.NotZero(t, got.StoredBytes)
		got.StoredBytes = 0
		require.Equal(t, rejoin.Stats{Sessions: 1, Streams: 2, Connections: 2, Opened: 1}, got)
		require.NoError(t, tool.CloseStream(0))
		synctest.Wait()
		require.EqualValues(t, 1, s.Stats().Parked)
		require.EqualValues(t, 1, s.Stats().Closed)
		require.EqualValues(t, 1, s.Stats().Connections)
		call.Poll()
		require.EqualValues(t, 0, s.Stats().Parked)
		require.EqualValues(t, 1, s.Stats().Resumed)
		call.Poll()
		require.EqualValues(t, 1, s.Stats().TakenOver)
		require.EqualValues(t, 2, s.Stats().Resumed)
		kit.Post(t, c, "nonsense")
		require.EqualValues(t, 1, s.Stats().Refused)
		c.Delete()
		require.Equal(t, rejoin.Stats{Opened: 1, Closed: 1, Resumed: 2, TakenOver: 1, Refused: 1}, s.Stats())
	})
}

// An ordinary route behind an adapter's Middleware finds the server, and can close streams.
func TestAnAdminRoute(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := rejointest.New(t, app, rejointest.Config{
			Server: rejoin.Config{KeepAlive: -1},
			Handler: func(s *rejoin.Server) http.Handler {
				admin := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					err := rejoin.ServerFromContext(r.Context()).CloseStream(rejoin.StreamRef(strings.TrimPrefix(r.URL.Path, "/close/")), time.Minute)
					if err != nil {
						http.Error(w, err.Error(), http.StatusNotFound)
					}
				})
				return stdadapter.Middleware("/mcp", s)(admin)
			},
		})
		call := c.CallTool("x", nil)
		tool := next()
		do := func(ref string) int {
			req := kit.Request(t, http.MethodGet, "")
			req.URL.Path = "/close/" + ref
			_, res := kit.ReadAll(t, c.Do(req))
			return res.StatusCode
		}
		require.Equal(t, http.StatusNotFound, do("x"))
		require.Equal(t, http.StatusOK, do(string(tool.Stream())))
		kit.RequireSpread(t, time.Minute, call.WaitClosed())
		require.NoError(t, tool.Notify("notifications/x", nil))
		require.Equal(t, http.StatusOK, do(string(tool.Stream())))
		call.Poll()
		require.Equal(t, "200 sse primer@0 1:x open", kit.Last(call))
	})
}
