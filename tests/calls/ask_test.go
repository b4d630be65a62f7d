package calls_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// silent is a client that answers requests only when speak was called, or the test has ended.
func silent(t *testing.T) (onRequest func(string, json.RawMessage) (any, error), speak func()) {
	block := make(chan struct{})
	speak = sync.OnceFunc(func() { close(block) })
	t.Cleanup(speak)
	return func(string, json.RawMessage) (any, error) {
		<-block
		return nil, rejoin.Errorf(-1, "too late")
	}, speak
}

// asked returns the ids of the server's requests among messages.
func asked(t *testing.T, messages []json.RawMessage) (ids []string) {
	t.Helper()
	for _, raw := range messages {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		require.NoError(t, json.Unmarshal(raw, &m))
		if m.Method != "" && m.ID != nil {
			ids = append(ids, string(m.ID))
		}
	}
	return ids
}

func TestRequestIsAnswered(t *testing.T) {
	for name, away := range map[string]bool{"while the client reads": false, "when the client is back": true} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				app, next := kit.ManualTools()
				c := kit.New(t, app, rejointest.Config{OnRequest: func(method string, _ json.RawMessage) (any, error) {
					return method, nil
				}})
				call := c.CallTool("x", nil)
				tool := next()
				if away {
					require.NoError(t, tool.CloseStream(time.Minute))
				}
				got := tool.Asks(tool.Ctx, "roots/list")
				if away {
					kit.Elapse(call.WaitClosed())
					require.Empty(t, got, "nobody can have seen it")
					call.Poll()
				}
				require.Len(t, got, 1)
				require.Equal(t, `"roots/list"`, <-got)
				require.Len(t, asked(t, call.Messages()), 1)
			})
		})
	}
}

// A JSON-RPC error of the client and an answer that does not fit are different errors.
func TestRequestFails(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{OnRequest: func(method string, _ json.RawMessage) (any, error) {
			if method == "refused" {
				return nil, &rejoin.Error{Code: -7, Message: "no", Data: json.RawMessage(`{"why":1}`)}
			}
			return "text", nil
		}})
		c.CallTool("x", nil)
		tool := next()
		err := tool.Ask(tool.Ctx, "refused", nil, nil)
		var e *rejoin.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, &rejoin.Error{Code: -7, Message: "no", Data: json.RawMessage(`{"why":1}`)}, e)
		var number int
		require.Error(t, tool.Ask(tool.Ctx, "text", nil, &number))
		require.NoError(t, tool.Ask(tool.Ctx, "text", nil, nil))
		require.Error(t, tool.Ask(tool.Ctx, "text", func() {}, nil), "params that are no JSON")
	})
}

// In mode JSON, or if its client can never poll, a call has no stream for a question. In mode JSON the question is sent if the client reads the
// standalone stream.
func TestRequestWithoutAStream(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{
			Server:    rejoin.Config{Policy: rejoin.Policy{Mode: rejoin.ModeJSON}},
			OnRequest: func(string, json.RawMessage) (any, error) { return "yes", nil },
		})
		call := c.CallTool("x", nil)
		tool := next()
		require.ErrorIs(t, tool.Ask(tool.Ctx, "roots/list", nil, nil), rejoin.ErrNoStream)
		listen := c.Listen()
		got := tool.Asks(tool.Ctx, "roots/list")
		require.Equal(t, `"yes"`, <-got)
		require.Len(t, asked(t, listen.Messages()), 1)
		require.Equal(t, "open", kit.Last(call))
		listen.Cut()
		require.ErrorIs(t, tool.Ask(tool.Ctx, "roots/list", nil, nil), rejoin.ErrNoStream)
	})
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{Capabilities: kit.Offers})
		call := c.CallTool("x", nil)
		tool := next()
		call.Cut() // before any id was sent
		require.ErrorIs(t, tool.Ask(tool.Ctx, "roots/list", nil, nil), rejoin.ErrNoStream)
		require.NoError(t, tool.Cause(), "the call runs on")
	})
}

// A question fails if its stream was lost before the client got an event id: it could never be answered.
func TestAQuestionOnAStreamThatIsStranded(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{Capabilities: kit.Offers})
		c.CallTool("x", nil)
		id := next().Session().ID()
		w := &kit.BrokenWriter{Response: kit.Response{Head: http.Header{}}}
		r := kit.InSession(t, id, `{"jsonrpc":"2.0","id":"mine","method":"x"}`)
		go c.Server().Serve(w, r)
		tool := next()
		require.Equal(t, rejoin.ErrNoStream, <-tool.Asks(tool.Ctx, "roots/list"))
		require.NoError(t, tool.Cause(), "the call runs on")
	})
}

// The end of a call ends its questions, with the reason. A late answer does no harm.
func TestWhatEndsAQuestion(t *testing.T) {
	for name, test := range map[string]struct {
		end  func(*rejointest.Client, *rejointest.Call, *kit.ManualTool)
		want error
	}{
		"the client's cancellation": {func(_ *rejointest.Client, call *rejointest.Call, _ *kit.ManualTool) { call.Cancel("") }, rejoin.ErrCancelled},
		"the session's end":         {func(c *rejointest.Client, _ *rejointest.Call, _ *kit.ManualTool) { c.Delete() }, rejoin.ErrSessionEnded},
		"the server's end":          {func(c *rejointest.Client, _ *rejointest.Call, _ *kit.ManualTool) { c.Server().Close() }, rejoin.ErrShutdown},
		"the call's own end":        {func(_ *rejointest.Client, _ *rejointest.Call, p *kit.ManualTool) { p.Returns("done") }, rejoin.ErrEnded},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				onRequest, speak := silent(t)
				app, next := kit.ManualTools()
				c := kit.New(t, app, rejointest.Config{OnRequest: onRequest})
				call := c.CallTool("x", nil)
				tool := next()
				ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
				defer cancel()
				got := tool.Asks(ctx, "roots/list")
				byAsk := make(chan error, 2)
				tool.Session().AskFunc(tool.Ctx, "roots/list", nil, func(_ json.RawMessage, err error) { byAsk <- err })
				synctest.Wait()
				require.Len(t, asked(t, call.Messages()), 2)
				test.end(c, call, tool)
				synctest.Wait()
				require.Len(t, got, 1)
				require.Equal(t, test.want, <-got)
				require.Len(t, byAsk, 1)
				require.Equal(t, test.want, <-byAsk)
				if name == "the call's own end" || name == "the client's cancellation" {
					speak() // the answers come now, and are accepted
					kit.Elapse(time.Second)
				}
				require.Empty(t, got)
				require.Empty(t, byAsk, "answered once")
			})
		})
	}
}

// A tool that gives up tells the client, on the stream on which it asked.
func TestAQuestionThatNobodyWaitsForIsWithdrawn(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		onRequest, speak := silent(t)
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{OnRequest: onRequest})
		listen := c.Listen()
		call := c.CallTool("x", nil)
		tool := next()
		ctx, cancel := context.WithTimeoutCause(context.Background(), time.Minute, fmt.Errorf("the user is %q", "busy"))
		defer cancel()
		got := tool.Asks(ctx, "roots/list")
		kit.Elapse(time.Minute)
		synctest.Wait()
		require.EqualError(t, (<-got).(error), `the user is "busy"`)
		messages := call.Messages()
		id := asked(t, messages)[0]
		require.JSONEq(t, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s,"reason":"the user is \"busy\""}}`, id),
			string(messages[len(messages)-1]))
		speak()
		kit.Elapse(time.Second)
		require.NoError(t, tool.Cause())

		// The cancel function of AskFunc does the same, and nothing the second time.
		withdraw := tool.Session().AskFunc(tool.Ctx, "roots/list", nil, func(json.RawMessage, error) { t.Error("reply after cancel") })
		withdraw("enough")
		withdraw("enough")
		require.Contains(t, kit.Last(call), "cancelled")
		require.Equal(t, 2, strings.Count(kit.Last(call), ":cancelled"))
		require.Empty(t, listen.Messages())
		kit.Elapse(time.Second)
	})
}

// Outside of calls a question travels on the standalone stream, and waits there for a client.
func TestASessionAsks(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{OnRequest: func(string, json.RawMessage) (any, error) { return 1, nil }})
		c.CallTool("x", nil)
		s := next().Session()
		got := make(chan any, 1)
		s.AskFunc(context.Background(), "roots/list", json.RawMessage(`{"a":1}`), func(raw json.RawMessage, err error) {
			if err != nil {
				got <- err
				return
			}
			got <- string(raw)
		})
		kit.Elapse(time.Minute)
		require.Empty(t, got)
		listen := c.Listen()
		require.Equal(t, "1", <-got)
		require.Contains(t, string(listen.Messages()[0]), `"method":"roots/list","params":{"a":1}`)

		listen.Cut()
		s.AskFunc(context.Background(), "roots/list", nil, func(_ json.RawMessage, err error) { got <- err })
		c.Delete()
		require.ErrorIs(t, (<-got).(error), rejoin.ErrSessionEnded)
		s.AskFunc(context.Background(), "roots/list", nil, func(_ json.RawMessage, err error) { got <- err })
		require.ErrorIs(t, (<-got).(error), rejoin.ErrSessionEnded, "it is over already")
	})
}

// Ids of the server's requests are never used twice. They contain a name of the process, so that an answer to another process is not accepted.
func TestIDsOfQuestionsNeverRepeat(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{
			Server:    rejoin.Config{Node: "node-7"},
			OnRequest: func(string, json.RawMessage) (any, error) { return nil, nil },
		})
		seen := map[string]bool{}
		for range 5 {
			call := c.CallTool("x", nil)
			tool := next()
			for range 20 {
				require.NoError(t, tool.Ask(tool.Ctx, "roots/list", nil, nil))
			}
			tool.Returns("done")
			for _, id := range asked(t, call.Messages()) {
				require.False(t, seen[id], id)
				require.Regexp(t, `^"node-7\.[0-9]+"$`, id)
				seen[id] = true
			}
		}
		require.Len(t, seen, 100)
	})
}

// Answers to which there is no question are accepted and ignored, also those to a question of another session.
func TestAnswersThatNobodyWaitsFor(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		onRequest, _ := silent(t)
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{OnRequest: onRequest})
		call := c.CallTool("x", nil)
		tool := next()
		got := tool.Asks(tool.Ctx, "roots/list")
		id := asked(t, call.Messages())[0]
		_, res := kit.Post(t, c, kit.Initialize, "Mcp-Session-Id", "")
		other := res.Header.Get("Mcp-Session-Id")
		for _, body := range []string{
			`{"jsonrpc":"2.0","id":"nobody.9","result":{}}`,
			`{"jsonrpc":"2.0","id":17,"result":{}}`,
			`{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}`,
			`{"jsonrpc":"2.0","id":` + strings.ToUpper(id) + `,"result":{}}`,
		} {
			_, res := kit.Post(t, c, body)
			require.Equal(t, 202, res.StatusCode, body)
		}
		_, res = kit.Post(t, c, `{"jsonrpc":"2.0","id":`+id+`,"result":{}}`, "Mcp-Session-Id", other)
		require.Equal(t, 202, res.StatusCode)
		require.Empty(t, got, "the answer of another session's client")
		_, res = kit.Post(t, c, `{"jsonrpc":"2.0","id":`+id+`,"error":{"code":"x"}}`)
		require.Equal(t, 202, res.StatusCode)
		require.ErrorContains(t, (<-got).(error), "malformed")
		_, res = kit.Post(t, c, `{"jsonrpc":"2.0","id":`+id+`,"result":{}}`)
		require.Equal(t, 202, res.StatusCode, "again")
	})
}
