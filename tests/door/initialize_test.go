package door_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// If initialize fails, in whatever way, there is no session and no session id, and the app is told once that the session has ended.
func TestAFailingInitializeLeavesNothing(t *testing.T) {
	for name, test := range map[string]struct {
		open    func(ended rejoin.AppSession) (rejoin.AppSession, error)
		request func(*rejoin.Call)
		want    string
		says    string
		never   string
		ended   int
	}{
		"Open returns an Error": {
			open: func(rejoin.AppSession) (rejoin.AppSession, error) {
				return nil, fmt.Errorf("wrapped: %w", &rejoin.Error{Code: -7, Message: "not you", Data: json.RawMessage(`{"reason":"mood"}`)})
			},
			want: `400 error(-7,"mine") mood ended`, says: "not you", never: "wrapped",
		},
		"Open returns another error": {
			open:  func(rejoin.AppSession) (rejoin.AppSession, error) { return nil, errors.New("secret") },
			want:  `500 error(-32603,"mine") ended`,
			never: "secret",
		},
		"Open panics": {
			open:  func(rejoin.AppSession) (rejoin.AppSession, error) { panic("secret") },
			want:  `500 error(-32603,"mine") ended`,
			never: "secret",
		},
		"Open returns nothing": {
			open: func(rejoin.AppSession) (rejoin.AppSession, error) { return nil, nil },
			want: `500 error(-32603,"mine") ended`,
		},
		"initialize is answered with an error": {
			request: func(c *rejoin.Call) { _ = c.Fail(rejoin.Errorf(rejoin.CodeInvalidParams, "no")) },
			want:    `200 error(-32602,"mine") ended`, says: "no", ended: 1,
		},
		"later": {
			request: func(c *rejoin.Call) {
				go func() { kit.Elapse(time.Minute); _ = c.Fail(rejoin.Errorf(rejoin.CodeInvalidParams, "no")) }()
			},
			want: `200 error(-32602,"mine") ended`, ended: 1,
		},
		"Request panics": {
			request: func(*rejoin.Call) { panic("secret") },
			want:    `200 error(-32603,"mine") ended`, never: "secret", ended: 1,
		},
		"the app ends the session": {
			request: func(c *rejoin.Call) { c.Handle().Session().End(errors.New("secret")) },
			want:    `200 error(-32000,"mine") ended ended`, never: "secret", ended: 1,
		},
		"it takes too long": {
			request: func(c *rejoin.Call) { _ = c.Handle().SetPolicy(rejoin.Policy{MaxRuntime: time.Second}) },
			want:    `200 error(-32000,"mine") max_runtime ended`, ended: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				var ended []error
				session := &kit.Fake{OnRequest: test.request, OnEnded: func(cause error) { ended = append(ended, cause) }}
				s := kit.NewServer(t, &kit.Fake{OnOpen: func(*http.Request, *rejoin.Session) (rejoin.AppSession, error) {
					if test.open != nil {
						return test.open(session)
					}
					return session, nil
				}}, rejoin.Config{Logger: kit.QuietLogger()})
				w := kit.Serve(s, kit.Request(t, http.MethodPost, kit.Initialize))
				kit.Elapse(time.Hour)
				require.Equal(t, test.want, w.Summary())
				require.Empty(t, w.Head.Values("Mcp-Session-Id"))
				require.Contains(t, w.Body.String(), test.says)
				if test.never != "" {
					require.NotContains(t, w.Body.String(), test.never)
				}
				require.Len(t, ended, test.ended)
				require.Zero(t, s.Stats().Sessions)
				require.Zero(t, s.Stats().Opened)
				require.Zero(t, s.Stats().Connections)
			})
		})
	}
}

// If a client disconnects before its answer was written, it does not know its session, so the session ends.
func TestAClientThatIsGoneDuringInitialize(t *testing.T) {
	for name, answer := range map[string]func(*rejoin.Call){
		"the app answers later": func(c *rejoin.Call) { kit.Elapse(time.Minute); kit.Accept(c) },
		"the app fails later":   func(c *rejoin.Call) { kit.Elapse(time.Minute); _ = c.Fail(rejoin.Errorf(1, "x")) },
		"the app never answers": func(*rejoin.Call) {},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				var told kit.Ends
				app := told.App()
				var call *rejoin.Call
				app.OnRequest = func(c *rejoin.Call) { call = c; go answer(c) }
				s := kit.NewServer(t, app, rejoin.Config{})
				ctx, cancel := context.WithCancel(context.Background())
				w := kit.Serve(s, kit.Request(t, http.MethodPost, kit.Initialize).WithContext(ctx))
				require.Equal(t, "open", w.Summary())
				require.Empty(t, kit.Sessions(s), "nobody knows it yet")
				cancel()
				synctest.Wait()
				require.Zero(t, s.Stats().Sessions)
				require.ErrorIs(t, context.Cause(call.Context()), rejoin.ErrSessionEnded)
				kit.Elapse(time.Hour)
				require.Len(t, told.Ended, 1)
				require.Zero(t, s.Stats().Connections)
			})
		})
	}
}

// The same if the answer cannot be written to the connection.
func TestAnAnswerToInitializeThatCannotBeWritten(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		var told kit.Ends
		app := told.App()
		s := kit.NewServer(t, app, rejoin.Config{})
		w := &kit.BrokenWriter{Response: kit.Response{Head: http.Header{}}}
		s.Serve(w, kit.Request(t, http.MethodPost, kit.Initialize))
		require.Zero(t, s.Stats().Sessions)
		require.Len(t, told.Ended, 1)
	})
}

// initialize gets one JSON object, whatever the policy says, and waits for its response.
func TestInitializeIsAlwaysJSON(t *testing.T) {
	for _, mode := range []rejoin.Mode{rejoin.ModeAuto, rejoin.ModeSSE, rejoin.ModeJSON} {
		kit.Bubble(t, func(t *testing.T) {
			app := &kit.Fake{OnRequest: func(c *rejoin.Call) {
				require.ErrorIs(t, c.Handle().CloseStream(0), rejoin.ErrNotResumable)
				require.NoError(t, c.Handle().Notify("notifications/message", nil))
				go func() { kit.Elapse(time.Minute); kit.Accept(c) }()
			}}
			s := kit.NewServer(t, app, rejoin.Config{Logger: kit.QuietLogger(), Policy: rejoin.Policy{Mode: mode}})
			w := kit.Serve(s, kit.Request(t, http.MethodPost, kit.Initialize))
			require.Equal(t, "open", w.Summary())
			c := kit.Request(t, http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"mine"}}`)
			require.Equal(t, `400 error(-32600,null) ended`, kit.Serve(s, c).Summary(), "it cannot be cancelled: its client has no session yet")
			kit.Elapse(time.Minute)
			require.Equal(t, "200 result ended", w.Summary())
			require.Len(t, w.Head.Values("Mcp-Session-Id"), 1)
			require.Len(t, kit.Sessions(s), 1)
		})
	}
}

// initialize ignores a session id that is unknown or another user's: clients keep sending it. A live session is refused, and is not changed.
func TestInitializeWithASessionID(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := rejointest.New(t, app, rejointest.Config{Server: rejoin.Config{Principal: func(r *http.Request) string { return r.Header.Get("X-User") }}})
		c.CallTool("x", nil)
		tool := next()
		body, res := kit.Post(t, c, kit.Initialize)
		require.Equal(t, `400 error(-32600,"mine")`, kit.Refusal(t, body, res))
		require.NoError(t, tool.Cause())
		require.Len(t, kit.Sessions(c.Server()), 1)

		body, res = kit.Post(t, c, kit.Initialize, "X-User", "other")
		require.Equal(t, "result", kit.MessageSummary(body))
		require.NotEqual(t, tool.Session().ID(), res.Header.Get("Mcp-Session-Id"))
		require.Len(t, kit.Sessions(c.Server()), 2)
		require.NoError(t, tool.Cause())

		c.Delete()
		body, res = kit.Post(t, c, kit.Initialize)
		require.Equal(t, "result", kit.MessageSummary(body))
		require.NotEqual(t, tool.Session().ID(), res.Header.Get("Mcp-Session-Id"))
		require.Len(t, kit.Sessions(c.Server()), 2)
	})
}

// A CanPoll that panics counts as false, and initialize is answered.
func TestCanPollThatPanics(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		s := kit.NewServer(t, &kit.Fake{}, rejoin.Config{Logger: kit.QuietLogger(), CanPoll: func(rejoin.ClientInfo, bool) bool { panic("secret") }})
		require.Equal(t, "200 result ended", kit.Serve(s, kit.Request(t, http.MethodPost, kit.Initialize)).Summary())
		require.Len(t, kit.Sessions(s), 1)
	})
}

// A panic in a callback of an app does no harm: neither to its session, nor to others.
func TestAnAppThatPanicsHarmsNobody(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app := &kit.Fake{
			OnRequest: func(c *rejoin.Call) {
				switch c.Method() {
				case "panic":
					panic("request")
				case "wait":
				default:
					kit.Accept(c)
				}
			},
			OnNotification: func(n *rejoin.Notification) {
				if n.Method() == "notifications/panic" {
					panic("notification")
				}
			},
			OnEnded: func(error) { panic("ended") },
		}
		c := rejointest.New(t, app, rejointest.Config{Server: rejoin.Config{Policy: rejoin.Policy{MaxRuntime: time.Minute}}})
		require.Equal(t, rejoin.CodeInternal, c.Start("panic", nil).Err().Code)
		c.Notify("notifications/panic", nil)
		cancelled := c.Start("wait", nil)
		cancelled.Cancel("")
		require.Equal(t, "200 sse closed", kit.Last(cancelled))
		require.JSONEq(t, `{"reason":"max_runtime"}`, string(c.Start("wait", nil).Err().Data))
		require.Equal(t, `{}`, string(c.Start("ping", nil).Result()))
		c.Delete()
		require.Zero(t, c.Server().Stats().Sessions)
	})
}

// A panic of user code during initialize reaches net/http, and leaves no session.
func TestPolicyForThatPanicsLeavesNoSession(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		s := kit.NewServer(t, &kit.Fake{}, rejoin.Config{Logger: kit.QuietLogger(), PolicyFor: func(rejoin.RequestInfo, rejoin.Policy) rejoin.Policy { panic("secret") }})
		require.Panics(t, func() { s.Serve(&kit.Response{Head: http.Header{}}, kit.Request(t, http.MethodPost, kit.Initialize)) })
		require.Zero(t, s.Stats().Sessions)
	})
}
