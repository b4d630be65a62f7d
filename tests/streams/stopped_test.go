package streams_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// pour reports progress n times at once, 5 KB each, and returns the values that were accepted.
func pour(t *testing.T, tool *kit.ManualTool, n int) (taken []int) {
	t.Helper()
	began := time.Now()
	big := strings.Repeat("x", 5000)
	for i := range n {
		err := tool.Progress(float64(i), 0, big)
		if err == nil {
			taken = append(taken, i)
			continue
		}
		require.ErrorIs(t, err, rejoin.ErrFull)
	}
	require.Zero(t, time.Since(began), "the tool never waits for its client")
	return taken
}

// A client that stops reading delays neither its tool, nor other calls of its session, nor other sessions. When it reads again or polls, it gets
// everything. It may have stopped at any time: before it read a byte, or later.
func TestAReaderThatStops(t *testing.T) {
	for name, test := range map[string]struct {
		begun bool // it has read something before
		n     int  // the number of messages
		back  func(c *rejointest.Client, call *rejointest.Call)
	}{
		"it takes over":                          {true, 2000, func(_ *rejointest.Client, call *rejointest.Call) { call.Poll() }},
		"it comes back after the write time-out": {true, 400, timedOut},
		"it had read nothing yet":                {false, 400, timedOut},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				app, next := kit.ManualTools()
				store := eventstore.NewMemory(eventstore.MemoryConfig{SessionBytes: 32 << 20})
				c := kit.New(t, app, rejointest.Config{Server: rejoin.Config{Store: store, Policy: rejoin.Policy{StreamAfter: -1}}})
				call := c.CallTool("x", nil)
				tool := next()
				from := 0
				if test.begun {
					require.NoError(t, tool.Notify("notifications/x", nil))
					call.WaitMessages(1)
					from = 1
				}
				call.Freeze()
				require.Equal(t, kit.UpTo(test.n), pour(t, tool, test.n))
				require.Less(t, len(call.Messages()), 20, "it does not read")
				kit.RequireOthersRun(t, c, next, tool)
				kit.AtOnce(t, "the response", func() { tool.Returns("done") })
				test.back(c, call)
				require.Equal(t, `"done"`, string(call.Result()))
				require.Equal(t, kit.UpTo(test.n), kit.Progress(t, call.Messages()))
				require.Len(t, call.Messages(), from+test.n+1)
				require.Zero(t, c.Server().Stats().Full)
				require.Zero(t, c.Server().Stats().Evicted)
			})
		})
	}
}

// timedOut lets the server's write time out. What was written before and not read still comes; that may be only an id.
func timedOut(c *rejointest.Client, call *rejointest.Call) {
	kit.Elapse(31 * time.Second) // WriteTimeout is 30 s
	synctest.Wait()
	call.Thaw()
	for range 3 {
		if call.Open() > 0 {
			kit.Elapse(31 * time.Second)
		}
	}
	call.Poll()
}

// With the default limits the store gets full. The tool gets an error, which is counted and logged once. The events that were accepted arrive, in order,
// and so does the response.
func TestAReaderThatStopsWhereThereIsNoRoom(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		said := &kit.Log{}
		c := kit.New(t, app, rejointest.Config{Server: rejoin.Config{Logger: slog.New(slog.NewTextHandler(said, nil))}})
		call := c.CallTool("x", nil)
		tool := next()
		require.NoError(t, tool.Notify("notifications/x", nil))
		call.WaitMessages(1)
		call.Freeze()
		taken := pour(t, tool, 2000)
		require.Greater(t, len(taken), 500, "of 4 MiB")
		require.Less(t, len(taken), 1000, "of 4 MiB")
		require.Equal(t, kit.UpTo(len(taken)), taken, "and no more is taken before there is room")
		require.EqualValues(t, 2000-len(taken), c.Server().Stats().Full)
		require.Equal(t, 1, said.Count("no room"))
		require.Zero(t, c.Server().Stats().Evicted)
		kit.AtOnce(t, "the response", func() { tool.Returns(strings.Repeat("y", 100_000)) })
		call.Poll()
		require.Len(t, string(call.Result()), 100_002)
		require.Equal(t, taken, kit.Progress(t, call.Messages()))
		require.Len(t, call.Messages(), 1+len(taken)+1)
	})
}

// WriteTimeout is for a write that blocks, not for a silent stream: such a stream still ends cleanly, also if only its end is left to be written.
func TestAStreamThatWasSilentForLongEndsCleanly(t *testing.T) {
	for name, end := range map[string]func(c *rejointest.Client, call *rejointest.Call){
		"cancelled": func(_ *rejointest.Client, call *rejointest.Call) { call.Cancel("") },
		"DELETE":    func(c *rejointest.Client, _ *rejointest.Call) { c.Delete() },
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				app, next := kit.ManualTools()
				c := kit.New(t, app, rejointest.Config{Server: rejoin.Config{KeepAlive: -1, WriteTimeout: time.Second}})
				call := c.CallTool("x", nil)
				require.NoError(t, next().Progress(0, 0, ""))
				kit.Elapse(time.Minute)
				end(c, call)
				require.Equal(t, "200 sse primer@0 1:progress closed", kit.Last(call))
			})
		})
	}
}

// A client may stop when only the end of the response is missing, which the server writes after the handler has returned. The server waits for that no
// longer than WriteTimeout either.
func TestAReaderThatStopsAtTheVeryEnd(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		x := &torn{t: t}
		lis := &kit.Pipes{Conns: make(chan net.Conn), Closed: make(chan struct{})}
		x.serve(lis)
		x.do = x.dialled(lis.Dial, func(c net.Conn) { c.Close() })
		x.open()
		x.goOn["x"], x.returned["x"] = make(chan struct{}), make(chan struct{})
		body, _ := x.do(x.request(http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`))
		var got []byte
		upTo := func(what string) {
			for b := make([]byte, 1); !strings.Contains(string(got), what) || !strings.HasSuffix(string(got), "\n\n\r\n"); {
				_, err := body.Read(b)
				require.NoError(t, err)
				got = append(got, b...)
			}
		}
		upTo(`"progress":4`)
		close(x.goOn["x"])
		upTo(`"result"`)
		serving := func() (n int) {
			for _, stack := range kit.Goroutines() {
				if strings.Contains(stack, "net/http.(*conn).serve(") {
					n++
				}
			}
			return n
		}
		require.Equal(t, 1, serving(), "it cannot write the end")
		kit.Elapse(31 * time.Second)
		require.Zero(t, serving())
	})
}

// HTTP/2 resets a stream when its deadline passes, also if nothing is being written.
func TestASilentStreamOfHTTP2(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		srv, err := rejoin.NewServer(app, rejoin.Config{KeepAlive: -1})
		require.NoError(t, err)
		protocols := &http.Protocols{}
		protocols.SetUnencryptedHTTP2(true)
		lis := &kit.Pipes{Conns: make(chan net.Conn), Closed: make(chan struct{})}
		hs := &http.Server{Handler: stdadapter.New(srv), Protocols: protocols}
		transport := &http.Transport{Protocols: protocols, DialContext: func(context.Context, string, string) (net.Conn, error) { return lis.Dial(), nil }}
		go func() { _ = hs.Serve(lis) }()
		defer func() { srv.Close(); hs.Close(); transport.CloseIdleConnections() }()
		send := func(session, body string) *http.Response {
			r := kit.Request(t, http.MethodPost, body)
			r.URL.Scheme, r.URL.Host = "http", "127.0.0.1"
			if session != "" {
				r.Header.Set("Mcp-Session-Id", session)
			}
			res, err := transport.RoundTrip(r)
			require.NoError(t, err)
			require.Equal(t, 2, res.ProtoMajor)
			return res
		}
		session := send("", kit.Initialize).Header.Get("Mcp-Session-Id")
		res := send(session, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x"}}`)
		kit.Elapse(time.Hour)
		next().Returns("done")
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.Contains(t, string(body), `"result":"done"`)
	})
}
