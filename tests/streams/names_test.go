package streams_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

var (
	namedMessage = regexp.MustCompile(`\Aevent: message\n(id: \S+\n)?data: \{.*\}\z`)
	noMessage    = regexp.MustCompile(`\A(id: \S+\nretry: \d+\ndata: |retry: \d+|: )\z`)
)

// requireNames requires that each event with data is named message, and that nothing else has a name. It returns the number of messages.
func requireNames(t *testing.T, call *rejointest.Call) (messages int) {
	t.Helper()
	for part := range strings.SplitSeq(call.Wire(), "HTTP/1.1 ") {
		_, body, _ := strings.Cut(part, "\r\n\r\n")
		for block := range strings.SplitSeq(strings.TrimSuffix(body, "\n\n"), "\n\n") {
			switch {
			case block == "":
			case namedMessage.MatchString(block):
				messages++
			default:
				require.Regexp(t, noMessage, block)
			}
		}
	}
	return messages
}

// Deployed clients compare an event's name with message and drop events without a name (@ai-sdk/mcp 1.0.47, mcp-go's client v0.31.0). So each event with
// data has the name: on each kind of stream, in each version, also events that the transport itself makes.
func TestEveryMessageIsNamed(t *testing.T) {
	for _, v := range core.Versions {
		t.Run(v.Name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				app, next := kit.ManualTools()
				c := kit.New(t, app, rejointest.Config{
					Version: v.Name, Server: rejoin.Config{Policy: rejoin.Policy{Mode: rejoin.ModeSSE}},
					OnRequest: func(string, json.RawMessage) (any, error) { return struct{}{}, nil },
				})
				listen, call := c.Listen(), c.CallTool("x", nil)
				tool := next()
				require.NoError(t, tool.Session().Notify(t.Context(), "notifications/a", nil))
				require.NoError(t, tool.Progress(1, 0, ""))
				require.Equal(t, "{}", <-tool.Asks(t.Context(), "elicitation/create"))
				call.Cut()
				require.NoError(t, tool.Progress(2, 0, ""))
				call.Poll()
				tool.Returns("done")
				require.Equal(t, `"done"`, string(call.Result()))
				require.Equal(t, 1, requireNames(t, listen), listen.Wire())
				require.Equal(t, 4, requireNames(t, call), call.Wire())
			})
		})
	}
}

// The errors in place of events that are gone are messages too.
func TestEveryErrorOfTheTransportIsNamed(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{Server: rejoin.Config{Policy: rejoin.Policy{AbandonAfter: time.Minute, Retain: time.Minute}}})
		abandoned := c.CallTool("x", nil)
		tool := next()
		require.NoError(t, tool.CloseStream(0))
		kit.Elapse(90 * time.Second)
		abandoned.Poll()
		require.Equal(t, []string{"200 sse primer@0 retry closed", "200 sse primer@0 1:error(-32000,2) abandoned closed"}, kit.Summaries(abandoned))
		require.Equal(t, 1, requireNames(t, abandoned))

		expired := c.CallTool("x", nil)
		tool = next()
		require.NoError(t, tool.CloseStream(0))
		tool.Returns("done")
		kit.Elapse(2 * time.Minute)
		expired.Poll()
		require.Equal(t, []string{"200 sse primer@0 retry closed", "200 sse primer@0 1:error(-32000,3) expired closed"}, kit.Summaries(expired))
		require.Equal(t, 1, requireNames(t, expired))
	})
}
