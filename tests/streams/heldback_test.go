package streams_test

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// hold is a middleware that holds back.
func hold(s *rejoin.Server) http.Handler { return kit.HoldBack(http.HandlerFunc(s.Serve)) }

// If a middleware claims that it can flush and does not, each stream is closed as soon as that is noticed, and its client polls. The log says once which
// writer holds back.
func TestAMiddlewareThatHoldsBackWhatIsFlushed(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		var lines strings.Builder
		c := kit.New(t, app, rejointest.Config{Handler: hold, Server: rejoin.Config{Logger: slog.New(slog.NewTextHandler(&lines, nil))}})
		quick := c.CallTool("x", nil)
		next().Returns("done")
		require.Equal(t, "200 result answered", kit.Last(quick), "what is quick is JSON as ever")

		call := c.CallTool("x", nil)
		tool := next()
		require.NoError(t, tool.Progress(1, 0, ""))
		require.Equal(t, "200 sse primer@0 1:progress retry closed", kit.Last(call))
		require.NoError(t, tool.Progress(2, 0, ""))
		call.Poll()
		require.Equal(t, "200 sse primer@1 2:progress retry closed", kit.Last(call))
		call.Poll()
		require.Equal(t, "200 sse primer@2 retry closed", kit.Last(call))
		tool.Returns("done")
		call.Poll()
		require.Equal(t, "200 sse primer@2 3:result closed", kit.Last(call))
		require.Equal(t, "200 sse primer@0 retry closed", kit.Last(c.Listen()))
		require.Equal(t, 1, strings.Count(lines.String(), "\n"), lines.String())
		require.Contains(t, lines.String(), "a middleware holds back what is flushed through it")
		require.Contains(t, lines.String(), "writer=*kit.Holding")
	})
}

// A client that cannot poll is not disconnected: it gets the whole stream when it ends.
func TestAnOldClientBehindAMiddlewareThatHoldsBack(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{Version: kit.Legacy, Handler: hold, Server: rejoin.Config{Logger: kit.QuietLogger()}})
		call := c.CallTool("x", nil)
		tool := next()
		require.NoError(t, tool.Progress(0, 0, ""))
		synctest.Wait()
		kit.Elapse(time.Minute)
		require.Equal(t, 1, call.Open())
		tool.Returns("done")
		require.Equal(t, `"done"`, string(call.Result()))
		require.Equal(t, kit.UpTo(1), kit.Progress(t, call.Messages()))
	})
}
