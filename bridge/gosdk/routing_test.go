package gosdk

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// send sends the nth message of a call. The kinds take turns.
func send(ctx context.Context, req *mcp.CallToolRequest, n int, note string) (want string, err error) {
	meta := mcp.Meta{"note": note}
	switch s := req.Session; n % 7 {
	case 0:
		return "progress " + note, progress(ctx, req, n, note)
	case 1:
		return "message " + note, s.Log(ctx, &mcp.LoggingMessageParams{Level: "info", Data: note})
	case 2:
		_, err = s.Elicit(ctx, &mcp.ElicitParams{Message: note, RequestedSchema: colors})
		return "create " + note, err
	case 3:
		_, err = s.CreateMessage(ctx, &mcp.CreateMessageParams{SystemPrompt: note, MaxTokens: 1})
		return "createMessage " + note, err
	case 4:
		_, err = s.ListRoots(ctx, &mcp.ListRootsParams{Meta: meta})
		return "list " + note, err
	case 5:
		return "ping " + note, s.Ping(ctx, &mcp.PingParams{Meta: meta})
	default:
		return "progress " + note, rejoin.HandleFromContext(ctx).Progress(float64(n), 0, note)
	}
}

// closes are the messages after which a tool disconnects its client. In between it asks a question, so that the client is back each time.
var closes = map[int]bool{1: true, 5: true, 12: true}

// chatter is a server with a tool that waits for start, then sends 20 messages of all kinds and disconnects its client in between.
func chatter(start <-chan struct{}) *mcp.Server {
	return newServer(nil, map[string]handler{"chatter": func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		name := fmt.Sprint(req.Params.GetProgressToken())
		<-start
		for n := range 20 {
			if _, err := send(ctx, req, n, fmt.Sprintf("%s.%d", name, n)); err != nil {
				return nil, err
			}
			if closes[n] {
				req.Extra.CloseSSEStream(mcp.CloseSSEStreamArgs{RetryAfter: 10 * time.Millisecond})
			}
		}
		return text("%s", name), nil
	}})
}

// chatterMessages returns the messages on the stream of such a call.
func chatterMessages(name string) []string {
	kinds := []string{"progress", "message", "create", "createMessage", "list", "ping", "progress"}
	var all []string
	for n := range 20 {
		all = append(all, fmt.Sprintf("%s %s.%d", kinds[n%7], name, n))
	}
	return append(all, "result "+name)
}

// pollToEnd polls all calls at the same time until they end, and checks their messages.
func pollToEnd(t *testing.T, calls []*rejointest.Call) {
	t.Helper()
	for range closes {
		for _, k := range calls {
			k.WaitClosed()
		}
		for _, k := range calls {
			k.Poll()
		}
	}
	for i, k := range calls {
		k.Result()
		name := token(k)
		expect(t, fmt.Sprint("call ", i), k.Messages(), chatterMessages(name)...)
	}
}

// token returns the progress token of a call, which is its id.
func token(k *rejointest.Call) string { return strings.Trim(string(k.ID()), `"`) }

func TestMessagesOf16CallsOfASessionStayOnTheirStreams(t *testing.T) {
	bubble(t, func(t *testing.T) {
		start := make(chan struct{})
		c := rejointest.New(t, New(chatter(start)), rejointest.Config{OnRequest: acceptAll})
		c.Start("logging/setLevel", map[string]string{"level": "info"}).Result()
		standalone := c.Listen()
		var calls []*rejointest.Call
		for range 16 {
			calls = append(calls, c.CallTool("chatter", nil))
		}
		close(start)
		pollToEnd(t, calls)
		expect(t, "the standalone stream", standalone.Messages())
	})
}

// The calls of all sessions have the same ids.
func TestMessagesOf16SessionsStayOnTheirStreams(t *testing.T) {
	bubble(t, func(t *testing.T) {
		start := make(chan struct{})
		app := New(chatter(start))
		var calls, standalone []*rejointest.Call
		for range 16 {
			c := rejointest.New(t, app, rejointest.Config{OnRequest: acceptAll})
			c.Start("logging/setLevel", map[string]string{"level": "info"}).Result()
			standalone = append(standalone, c.Listen())
			calls = append(calls, c.CallTool("chatter", nil))
		}
		close(start)
		pollToEnd(t, calls)
		for _, s := range standalone {
			expect(t, "a standalone stream", s.Messages())
		}
	})
}

func TestBroadcastsAndWhatNoCallSendsTravelOnTheStandaloneStream(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var inside *mcp.CallToolRequest
		var ctx context.Context
		running, release := make(chan struct{}), make(chan struct{})
		s := newServer(&mcp.ServerOptions{
			SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
			UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
		}, map[string]handler{"x": func(c context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			inside, ctx = req, c
			close(running)
			<-release
			return text("x"), nil
		}})
		c := rejointest.New(t, New(s), rejointest.Config{OnRequest: acceptAll})
		c.Start("logging/setLevel", map[string]string{"level": "info"}).Result()
		c.Start("resources/subscribe", map[string]string{"uri": "a:1"}).Result()
		standalone := c.Listen()
		call := c.CallTool("x", nil)
		<-running
		do := func(err error) {
			t.Helper()
			if err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		log := func(ctx context.Context, note string) error {
			return inside.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "info", Data: note})
		}
		background := context.Background() // not the context of a call
		do(s.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: "a:1"}))
		s.AddTool(&mcp.Tool{Name: "y", InputSchema: map[string]any{"type": "object"}}, nil)
		elapse(time.Second)
		do(log(background, "outside"))
		do(progress(background, inside, 1, "outside"))
		_, err := inside.Session.ListRoots(background, nil)
		do(err)
		do(log(ctx, "inside"))
		close(release)
		expect(t, "the call", []json.RawMessage{call.Messages()[0]}, "message inside")
		call.Result()
		do(log(ctx, "late"))
		do(progress(ctx, inside, 2, "late")) // dropped
		do(s.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: "a:1"}))
		expect(t, "the call", call.Messages(), "message inside", "result x")
		expect(t, "the standalone stream", standalone.Messages(),
			"updated a:1", "list_changed", "message outside", "progress outside", "list", "message late", "updated a:1")
	})
}
