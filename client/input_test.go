package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/client"
)

// handler is an OnRequest that writes down what it is asked.
type handler struct {
	mu    sync.Mutex
	asked []string
	reply func(ctx context.Context, method string) (any, error)
}

func (h *handler) on(ctx context.Context, method string, params json.RawMessage) (any, error) {
	h.mu.Lock()
	h.asked = append(h.asked, method+" "+string(params))
	h.mu.Unlock()
	if h.reply != nil {
		return h.reply(ctx, method)
	}
	return map[string]any{"action": "accept", "to": params}, nil
}

// questions are inputRequests: for each key a question with the key in its params.
func questions(method string, keys ...string) string {
	text := `"inputRequests":{`
	for i, key := range keys {
		if i > 0 {
			text += ","
		}
		text += `"` + key + `":{"method":"` + method + `","params":{"of":"` + key + `"}}`
	}
	return text + "}"
}

func TestAQuestionBeforeTheTaskIsAnsweredByTheNextCall(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := &tasking{on: on{
			"tools/call": func(w http.ResponseWriter, h request, n int) {
				switch n {
				case 1:
					h.answer(w, `{"resultType":"input_required","requestState":"s1",`+questions("elicitation/create", "a", "b")+`}`)
				case 2:
					h.answer(w, `{"resultType":"input_required","requestState":"s2","content":null,`+questions("sampling/createMessage", "a")+`}`)
				case 3:
					h.answer(w, `{"resultType":"input_required","requestState":"busy"}`)
				case 4:
					h.answer(w, state("task", "working", ""))
				}
			},
			"tasks/get": then(completed()),
		}}
		user := &handler{}
		_, _, call := playTask(t, server, client.Config{OnRequest: user.on})
		require.NoError(t, call.Wait(t.Context(), nil))
		calls := server.hits("tools/call")
		require.Len(t, calls, 4)
		ids := map[string]bool{}
		for _, h := range calls {
			require.JSONEq(t, `"x"`, string(h.params["name"]), "the same call")
			require.False(t, ids[h.id], "a new id")
			ids[h.id] = true
		}
		require.NotContains(t, calls[0].params, "requestState")
		require.NotContains(t, calls[0].params, "inputResponses")
		require.JSONEq(t, `"s1"`, string(calls[1].params["requestState"]))
		require.JSONEq(t, `{"a":{"action":"accept","to":{"of":"a"}},"b":{"action":"accept","to":{"of":"b"}}}`, string(calls[1].params["inputResponses"]))
		require.JSONEq(t, `"s2"`, string(calls[2].params["requestState"]))
		require.JSONEq(t, `{"a":{"action":"accept","to":{"of":"a"}}}`, string(calls[2].params["inputResponses"]), "only the last round's")
		require.JSONEq(t, `"busy"`, string(calls[3].params["requestState"]))
		require.NotContains(t, calls[3].params, "inputResponses")
		require.Greater(t, calls[3].at-calls[2].at, time.Second, "a server that is busy is not hurried")
		require.Len(t, user.asked, 3)
	})
}

func TestRoundsOfQuestionsEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := &tasking{on: on{"tools/call": func(w http.ResponseWriter, h request, n int) {
			h.answer(w, `{"resultType":"input_required",`+questions("roots/list", "a")+`}`)
		}}}
		_, _, call := playTask(t, server, client.Config{OnRequest: (&handler{}).on})
		require.ErrorIs(t, call.Wait(t.Context(), nil), client.ErrProtocol)
		require.Len(t, server.hits("tools/call"), 100)
	})
}

// A task shows its open questions with each poll; servers may be slow to forget one. Each is put to the user once.
func TestEachQuestionOfATaskIsAnsweredOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		asks := func(keys ...string) string {
			return state("complete", "input_required", questions("elicitation/create", keys...))
		}
		server := &tasking{on: on{"tasks/get": then(
			asks("r1.a", "r1.b"), asks("r1.a", "r1.b"), asks("r1.b"), state("complete", "working", ""), asks("r1.a", "r2.a"), asks("r2.a"), completed(),
		)}}
		user := &handler{}
		_, _, call := playTask(t, server, client.Config{OnRequest: user.on})
		require.NoError(t, call.Wait(t.Context(), nil))
		require.ElementsMatch(t, []string{
			`elicitation/create {"of":"r1.a"}`, `elicitation/create {"of":"r1.b"}`, `elicitation/create {"of":"r2.a"}`,
		}, user.asked)
		var sent []string
		for _, h := range server.hits("tasks/update") {
			require.JSONEq(t, `"t1"`, string(h.params["taskId"]))
			sent = append(sent, string(h.params["inputResponses"]))
		}
		require.ElementsMatch(t, []string{
			`{"r1.a":{"action":"accept","to":{"of":"r1.a"}}}`, `{"r1.b":{"action":"accept","to":{"of":"r1.b"}}}`, `{"r2.a":{"action":"accept","to":{"of":"r2.a"}}}`,
		}, sent)
		require.Len(t, server.hits("tools/call"), 1)
	})
}

func TestAnAnswerIsSentUntilTheServerTakesIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := &tasking{on: on{
			"tasks/get": func(w http.ResponseWriter, h request, n int) {
				if n < 10 {
					h.answer(w, state("complete", "input_required", questions("elicitation/create", "a")))
					return
				}
				h.answer(w, completed())
			},
			"tasks/update": func(w http.ResponseWriter, h request, n int) {
				switch n {
				case 1:
					w.WriteHeader(http.StatusBadGateway)
				case 2:
					cut(w)
				default:
					h.answer(w, `{"resultType":"complete"}`)
				}
			},
		}}
		user := &handler{}
		_, _, call := playTask(t, server, client.Config{OnRequest: user.on})
		require.NoError(t, call.Wait(t.Context(), nil))
		require.Len(t, server.hits("tasks/update"), 3)
		require.Len(t, user.asked, 1, "the user is not asked again")
	})
}

// A question that the task no longer asks is taken from the user.
func TestAQuestionThatATaskNoLongerAsksIsWithdrawn(t *testing.T) {
	for name, after := range map[string]string{
		"another":  state("complete", "input_required", questions("elicitation/create", "other")),
		"working":  state("complete", "working", ""),
		"complete": completed(),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				server := &tasking{on: on{"tasks/get": then(state("complete", "input_required", questions("elicitation/create", "a")), after)}}
				withdrawn := make(chan struct{}, 8)
				user := &handler{reply: func(ctx context.Context, _ string) (any, error) {
					<-ctx.Done()
					withdrawn <- struct{}{}
					return "an answer all the same", nil
				}}
				_, s, _ := playTask(t, server, client.Config{OnRequest: user.on})
				begun := time.Now()
				<-withdrawn
				require.Less(t, time.Since(begun), 10*time.Second)
				s.Leave()
				require.Empty(t, server.hits("tasks/update"))
			})
		})
	}
}

// There is no form for an error in this era: what can be declined is, and what cannot ends the call.
func TestQuestionsThatNobodyAnswers(t *testing.T) {
	fails := func(context.Context, string, json.RawMessage) (any, error) {
		return nil, errors.New("the password is x")
	}
	for name, test := range map[string]struct {
		method string
		on     func(context.Context, string, json.RawMessage) (any, error)
		want   string
	}{
		"elicitation, no handler": {"elicitation/create", nil, `{"a":{"action":"decline"}}`},
		"elicitation, an error":   {"elicitation/create", fails, `{"a":{"action":"decline"}}`},
		"roots, no handler":       {"roots/list", nil, `{"a":{"roots":[]}}`},
		"sampling, no handler":    {"sampling/createMessage", nil, ""},
		"sampling, an error":      {"sampling/createMessage", fails, ""},
		"sampling, its own error": {"sampling/createMessage", func(context.Context, string, json.RawMessage) (any, error) {
			return nil, &client.Error{Code: -1, Message: "no model"}
		}, ""},
		"something new": {"weather/ask", nil, ""},
	} {
		for _, inTask := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					asks := func(kind string) string { return state(kind, "input_required", questions(test.method, "a")) }
					server := &tasking{on: on{}}
					if inTask {
						server.on["tasks/get"] = then(asks("complete"), asks("complete"), completed())
					} else {
						server.on["tools/call"] = func(w http.ResponseWriter, h request, n int) {
							if n == 1 {
								h.answer(w, asks("input_required"))
								return
							}
							h.answer(w, `{"content":[]}`)
						}
					}
					_, _, call := playTask(t, server, client.Config{OnRequest: test.on, Logger: slog.New(slog.DiscardHandler)})
					err := call.Wait(t.Context(), nil)
					sent := append(server.hits("tasks/update"), server.hits("tools/call")[1:]...)
					if test.want != "" {
						require.NoError(t, err)
						require.Len(t, sent, 1)
						require.JSONEq(t, test.want, string(sent[0].params["inputResponses"]))
						return
					}
					require.ErrorIs(t, err, client.ErrUnanswered)
					require.ErrorContains(t, err, test.method)
					require.NotContains(t, err.Error(), "password")
					var e *client.Error
					require.NotErrorAs(t, err, &e, "the server has not answered with one")
					require.Empty(t, sent)
					synctest.Wait()
					require.Len(t, server.hits("tasks/cancel"), map[bool]int{true: 1, false: 0}[inTask], "a task that waits for ever is of no use")
				})
			})
		}
	}
}

// Only what is answered is offered.
func TestWhatNobodyAnswersIsNotOffered(t *testing.T) {
	all := map[string]any{
		"elicitation": struct{}{}, "sampling": struct{}{}, "roots": struct{}{}, "experimental": map[string]any{"x": 1},
		"extensions": map[string]any{"example.com/y": map[string]any{"z": 1}},
	}
	for name, test := range map[string]struct {
		on   func(context.Context, string, json.RawMessage) (any, error)
		want string
	}{
		"nothing": {nil, `{"experimental":{"x":1},"extensions":{"example.com/y":{"z":1},"io.modelcontextprotocol/tasks":{}}}`},
		"all": {(&handler{}).on, `{"elicitation":{},"sampling":{},"roots":{},"experimental":{"x":1},
			"extensions":{"example.com/y":{"z":1},"io.modelcontextprotocol/tasks":{}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				server := &offering{}
				s := connect(t, serve(t, server), client.Config{Capabilities: all, OnRequest: test.on, Era: client.EraModern})
				require.NoError(t, s.Do(t.Context(), "ping", nil, nil))
				require.Len(t, server.capabilities, 2)
				for _, got := range server.capabilities {
					require.JSONEq(t, test.want, got)
				}
			})
		})
	}
}

// offering is a server that notes what its client offers.
type offering struct{ capabilities []string }

func (o *offering) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m struct {
		ID     json.RawMessage
		Params struct {
			Meta map[string]json.RawMessage `json:"_meta"`
		}
	}
	_ = json.NewDecoder(r.Body).Decode(&m)
	o.capabilities = append(o.capabilities, string(m.Params.Meta["io.modelcontextprotocol/clientCapabilities"]))
	request{id: string(m.ID)}.answer(w, withTasks)
}
