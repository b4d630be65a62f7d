package operation_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// A hundred calls run, in every state, when the server is closed or drained. Then http.Server.Shutdown has nothing to wait for: each response has its
// end on the wire, and each client its result, an error, or a time to poll.
func TestShutdownWithManyStreams(t *testing.T) {
	const patient = time.Minute
	for name, test := range map[string]struct {
		before  func(t *testing.T, s *rejoin.Server, hs *http.Server, finish func())
		results bool
	}{
		"Close, registered": {before: func(_ *testing.T, s *rejoin.Server, hs *http.Server, _ func()) { hs.RegisterOnShutdown(s.Close) }},
		"Close before":      {before: func(_ *testing.T, s *rejoin.Server, _ *http.Server, _ func()) { s.Close() }},
		"a drain": {results: true, before: func(t *testing.T, s *rejoin.Server, _ *http.Server, finish func()) {
			done := kit.Drain(t, s, patient)
			finish()
			require.NoError(t, <-done)
		}},
		"a drain that takes too long": {before: func(t *testing.T, s *rejoin.Server, _ *http.Server, _ func()) {
			require.Equal(t, &rejoin.DrainError{Running: 100}, <-kit.Drain(t, s, patient))
		}},
	} {
		for _, version := range []string{kit.Polling, kit.Legacy} {
			t.Run(name+", "+version, func(t *testing.T) {
				kit.Bubble(t, func(t *testing.T) {
					app, next := kit.ManualTools()
					var hs *http.Server
					c := rejointest.New(t, app, rejointest.Config{
						Version: version, HTTP: func(s *http.Server) { hs = s },
						Server: rejoin.Config{MaxConcurrent: 100, KeepAlive: -1, Policy: rejoin.Policy{StreamAfter: -1}},
					})
					listen := c.Listen()
					var calls []*rejointest.Call
					var tools []*kit.ManualTool
					for i := range 100 {
						calls, tools = append(calls, c.CallTool("x", nil)), append(tools, next())
						if i%4 != 0 {
							require.NoError(t, tools[i].Progress(1, 0, ""))
						}
						if i%4 == 2 && version == kit.Polling {
							require.NoError(t, tools[i].CloseStream(0))
							calls[i].WaitClosed()
						}
						if i%4 == 3 {
							calls[i].Cut()
						}
					}
					back := func(i int) bool { return i%4 == 3 || i%4 == 2 && version == kit.Polling } // the client has to poll
					test.before(t, c.Server(), hs, func() {
						for i := range calls {
							tools[i].Returns(i)
							if back(i) {
								calls[i].Poll()
							}
						}
					})
					shutsDown(t, hs)
					require.Zero(t, listen.Open())
					require.NotContains(t, listen.String(), "broken")
					for i, call := range calls {
						require.NotContains(t, call.String(), "broken")
						ended := regexpOf(test.results, back(i), i, version)
						require.Regexp(t, ended, kit.Last(call))
						if !test.results {
							require.ErrorIs(t, tools[i].Cause(), rejoin.ErrShutdown)
						}
					}
					if !test.results {
						require.Zero(t, c.Server().Stats().Sessions)
					}
					for _, stack := range kit.Goroutines() {
						require.NotContains(t, stack, "rejoin.(*conn)")
						require.NotContains(t, stack, "rejoin.(*Session)")
					}
				})
			})
		}
	}
}

// regexpOf is what the summary of a call's last connection looks like.
func regexpOf(results, away bool, i int, version string) string {
	response := `error\(-32000,\d+\) shutdown`
	if results {
		response = "result"
	}
	greeting := map[string]string{kit.Polling: "primer@0 ", kit.Legacy: "comment "}[version]
	switch {
	case away && results:
		return `^200 sse (primer@1|comment) 2:result closed$`
	case away && i%4 == 3:
		return "^200 sse " + greeting + "1:progress cut$" // the client has not polled
	case away:
		return "^200 sse " + greeting + "1:progress retry closed$"
	case i%4 == 0:
		return "^200 " + response + " answered$"
	}
	return "^200 sse " + greeting + "1:progress 2:" + response + " closed$"
}

// The same over real sockets, which can be reset, unlike pipes in memory: for net/http's client a response that does not end with its last chunk is an
// error. The test waits only for events.
func TestShutdownOverTCP(t *testing.T) {
	for _, drain := range []bool{false, true} {
		t.Run(fmt.Sprintf("drain=%v", drain), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			finish := make(chan struct{})
			s := kit.NewServer(t, kit.Tool(func(ctx context.Context, h *rejoin.Handle) (any, error) {
				if err := h.Notify("notifications/started", nil); err != nil {
					return nil, err
				}
				select {
				case <-finish:
					return "done", nil
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				}
			}), rejoin.Config{})
			lis, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
			require.NoError(t, err)
			hs := &http.Server{Handler: stdadapter.New(s), ReadHeaderTimeout: time.Minute}
			hs.RegisterOnShutdown(s.Close)
			served := make(chan error, 1)
			go func() { served <- hs.Serve(lis) }()
			w := wire{t: t, ctx: ctx, url: "http://" + lis.Addr().String() + "/mcp"}
			w.client.Transport = &w.transport
			defer w.transport.CloseIdleConnections()

			var calls, listeners []<-chan string
			for i := range 20 {
				version := []string{kit.Polling, kit.Legacy}[i%2]
				id := w.open(version)
				calls = append(calls, w.stream(w.request(http.MethodPost, id, version, `{"jsonrpc":"2.0","id":"mine","method":"x"}`), "started"))
				listeners = append(listeners, w.stream(w.request(http.MethodGet, id, version, ""), ""))
			}
			if drain {
				done := make(chan error, 1)
				go func() { done <- s.Drain(ctx) }()
				for i := 0; i < len(listeners); i += 2 {
					require.Regexp(t, "^primer@0 retry$", <-listeners[i])
				}
				close(finish)
				require.NoError(t, <-done)
			}
			require.NoError(t, hs.Shutdown(ctx))
			require.ErrorIs(t, <-served, http.ErrServerClosed)
			for i, call := range calls {
				want := "1:started 2:error(-32000,\"mine\") shutdown"
				if drain {
					want = "1:started 2:result"
				}
				require.Equal(t, want, strings.TrimPrefix(strings.TrimPrefix(<-call, "primer@0 "), "comment "))
				if !drain || i%2 == 1 {
					require.Equal(t, []string{"primer@0 retry", "comment"}[i%2], <-listeners[i])
				}
			}
		})
	}
}

// wire is a client over real sockets.
type wire struct {
	t         *testing.T
	ctx       context.Context //nolint:containedctx // the test's own deadline
	url       string
	transport http.Transport
	client    http.Client
}

func (w *wire) request(method, session, version, body string) *http.Request {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.ctx, method, w.url, strings.NewReader(body))
	require.NoError(w.t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
		r.Header.Set("Mcp-Protocol-Version", version)
	}
	return r
}

// open opens a session.
func (w *wire) open(version string) (session string) {
	w.t.Helper()
	res, err := w.client.Do(w.request(http.MethodPost, "", "", strings.Replace(kit.Initialize, kit.Polling, version, 1)))
	require.NoError(w.t, err)
	_, res = kit.ReadAll(w.t, res)
	return res.Header.Get("Mcp-Session-Id")
}

// stream sends a request for a stream, and returns when a line with text has come. The channel gets everything that came, and how the stream ended.
func (w *wire) stream(r *http.Request, text string) <-chan string {
	w.t.Helper()
	res, err := w.client.Do(r)
	require.NoError(w.t, err)
	require.Equal(w.t, http.StatusOK, res.StatusCode)
	out, started := make(chan string, 1), make(chan struct{})
	arrived := sync.OnceFunc(func() { close(started) })
	go func() {
		defer res.Body.Close()
		var all strings.Builder
		body := bufio.NewReader(res.Body)
		for {
			line, err := body.ReadString('\n')
			all.WriteString(line)
			if err == nil && strings.Contains(line, text) {
				arrived()
			}
			switch err {
			case nil:
			case io.EOF:
				out <- kit.EventsSummary(all.String())
				return
			default:
				arrived()
				out <- fmt.Sprintf("broken: %v after %q", err, all.String())
				return
			}
		}
	}()
	select {
	case <-started:
	case <-w.ctx.Done():
		w.t.Fatal("nothing has come")
	}
	return out
}

// Shutdown may be called twice, and then Close runs twice at once: clients get one error, and one end.
func TestShutdownTwice(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		var hs *http.Server
		c := rejointest.New(t, app, rejointest.Config{HTTP: func(s *http.Server) { hs = s }})
		hs.RegisterOnShutdown(c.Server().Close)
		call := c.CallTool("x", nil)
		tool := next()
		require.NoError(t, tool.Progress(1, 0, ""))
		done := make(chan error, 2)
		for range 2 {
			go func() { done <- hs.Shutdown(context.Background()) }()
		}
		require.NoError(t, <-done)
		require.NoError(t, <-done)
		synctest.Wait()
		require.Equal(t, "200 sse primer@0 1:progress 2:error(-32000,2) shutdown closed", kit.Last(call))
		require.NoError(t, hs.Shutdown(context.Background()))
	})
}
