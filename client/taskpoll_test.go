package client_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/client"
)

func TestATaskIsPolledToItsResult(t *testing.T) {
	bubble(t, func(t *testing.T) {
		working := func(message string) string { return state("complete", "working", `"statusMessage":"`+message+`"`) }
		server := &tasking{on: on{
			"tools/call": func(w http.ResponseWriter, h request, n int) {
				stream(w, "data: "+`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}`+"\n\n: hi\n\n"+
					"data: "+`{"jsonrpc":"2.0","id":`+h.id+`,"result":`+state("task", "working", "")+"}\n\n")
			},
			"tasks/get": then(working("one"), working("one"), working("two"), working("two"), completed()),
		}}
		_, s, call := playTask(t, server, client.Config{})
		require.Equal(t, []string{
			`{"progress":1}`,
			`{"lastUpdatedAt":"2026-11-30T03:40:56.864Z","status":"working","statusMessage":"one"}`,
			`{"lastUpdatedAt":"2026-11-30T03:40:56.864Z","status":"working","statusMessage":"two"}`,
		}, take(call), "each once, and without the task's id")
		var result struct{ OK bool }
		require.NoError(t, call.Wait(t.Context(), &result))
		require.True(t, result.OK)
		require.Empty(t, s.ID())
		require.JSONEq(t, withTasks, string(s.Server()))
		for _, gap := range server.gaps() {
			require.GreaterOrEqual(t, gap, 2*time.Second, "no sooner than the server asks")
			require.LessOrEqual(t, gap, 2400*time.Millisecond, "a little jitter")
		}
		require.Len(t, server.hits("tasks/get"), 5)
		require.Len(t, server.hits("tools/call"), 1)
		require.Empty(t, server.hits("tasks/cancel"))
	})
}

func TestHowATaskEnds(t *testing.T) {
	for name, test := range map[string]struct {
		last  string
		check func(t *testing.T, err error)
	}{
		"completed with isError": {state("complete", "completed", `"result":{"isError":true}`), func(t *testing.T, err error) { require.NoError(t, err) }},
		"failed": {state("complete", "failed", `"statusMessage":"more","error":{"code":-5,"message":"no","data":[1]}`), func(t *testing.T, err error) {
			var e *client.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, &client.Error{Code: -5, Message: "no", Data: json.RawMessage("[1]")}, e)
		}},
		"failed because it expired": {
			state("complete", "failed", `"error":{"code":-5,"message":"no","data":{"reason":"expired"}}`),
			func(t *testing.T, err error) { require.ErrorIs(t, err, client.ErrExpired) },
		},
		"cancelled": {state("complete", "cancelled", ""), func(t *testing.T, err error) { require.ErrorIs(t, err, client.ErrNoResponse) }},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				server := &tasking{on: on{"tasks/get": then(state("complete", "working", ""), test.last)}}
				_, _, call := playTask(t, server, client.Config{})
				test.check(t, call.Wait(t.Context(), nil))
				require.Empty(t, server.hits("tasks/cancel"), "it has ended")
				require.Len(t, server.hits("tasks/get"), 2)
			})
		})
	}
}

// What passes for a moment costs polls, and no call.
func TestAPollThatFailsIsTriedAgain(t *testing.T) {
	status := func(code int) func(w http.ResponseWriter, h request) {
		return func(w http.ResponseWriter, h request) { w.WriteHeader(code) }
	}
	for name, fault := range map[string]func(w http.ResponseWriter, h request){
		"429": status(429), "500": status(500), "502": status(502), "503": status(503), "504": status(504),
		"a broken connection":  func(w http.ResponseWriter, h request) { cut(w) },
		"a stream without end": func(w http.ResponseWriter, h request) { stream(w, ": hi\n\n") },
		"half an answer": func(w http.ResponseWriter, h request) {
			w.Header().Set("Content-Length", "500")
			h.answer(w, completed())
		},
		"no answer":              func(w http.ResponseWriter, h request) { <-h.gone },
		"an error of the poll's": func(w http.ResponseWriter, h request) { h.refuse(w, 200, -32603) },
		"the same with 500":      func(w http.ResponseWriter, h request) { h.refuse(w, 500, -32603) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				server := &tasking{on: on{"tasks/get": func(w http.ResponseWriter, h request, n int) {
					if n%4 != 0 {
						fault(w, h)
						return
					}
					then(state("complete", "working", ""), completed())(w, h, n/4)
				}}}
				_, _, call := playTask(t, server, client.Config{Attempts: 4, HeaderTimeout: 5 * time.Second, Backoff: 3 * time.Second})
				require.NoError(t, call.Wait(t.Context(), nil))
				require.Len(t, server.hits("tasks/get"), 8)
				require.Len(t, server.hits("tools/call"), 1, "the call is sent once")
				gaps := server.gaps()
				for i, least := range []float64{2, 3, 6, 12, 2, 3, 6, 12} {
					require.GreaterOrEqual(t, gaps[i].Seconds(), least, "each wait twice as long as the one before")
				}
			})
		})
	}
}

func TestARetryAfterOfAPollIsObeyed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := &tasking{on: on{"tasks/get": func(w http.ResponseWriter, h request, n int) {
			if n == 1 {
				w.Header().Set("Retry-After", "50")
				w.WriteHeader(http.StatusTooManyRequests)
				return
			}
			h.answer(w, completed())
		}}}
		_, _, call := playTask(t, server, client.Config{})
		require.NoError(t, call.Wait(t.Context(), nil))
		gap := server.gaps()[1]
		require.True(t, gap >= 50*time.Second && gap <= time.Minute, gap)
	})
}

func TestATaskIsGivenUpAndItsTokenGoesOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := &tasking{on: on{"tasks/get": func(w http.ResponseWriter, h request, n int) {
			if n <= 3 {
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			h.answer(w, completed())
		}}}
		hc, _, call := playTask(t, server, client.Config{Attempts: 3})
		err := call.Wait(t.Context(), nil)
		var e *client.GaveUpError
		require.ErrorAs(t, err, &e)
		require.Equal(t, 3, e.Attempts)
		require.ErrorContains(t, err, "502 Bad Gateway")
		require.Empty(t, server.hits("tasks/cancel"), "it may still end well")
		_, err = rest(t, hc, call.Token())
		require.NoError(t, err)
	})
}

func TestAPollThatIsRefusedEndsTheWait(t *testing.T) {
	for name, test := range map[string]struct {
		status, code int
		check        func(t *testing.T, err error)
	}{
		"unknown": {400, -32602, func(t *testing.T, err error) { require.ErrorIs(t, err, client.ErrExpired) }},
		"unknown, with another status": {200, -32602, func(t *testing.T, err error) {
			require.ErrorIs(t, err, client.ErrExpired)
		}},
		"not allowed": {403, -32600, func(t *testing.T, err error) {
			var e *client.StatusError
			require.ErrorAs(t, err, &e)
			require.Equal(t, 403, e.Status)
		}},
		"a header lost on the way": {400, -32020, func(t *testing.T, err error) { require.ErrorContains(t, err, "400 Bad Request: JSON-RPC error -32020") }},
		"no tasks any more": {404, -32601, func(t *testing.T, err error) {
			var e *client.Error
			require.NotErrorAs(t, err, &e, "that would be the answer to the call")
			require.ErrorContains(t, err, "does not tell how the task is: JSON-RPC error -32601: no")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				server := &tasking{on: on{"tasks/get": func(w http.ResponseWriter, h request, n int) { h.refuse(w, test.status, test.code) }}}
				_, _, call := playTask(t, server, client.Config{})
				test.check(t, call.Wait(t.Context(), nil))
				require.Len(t, server.hits("tasks/get"), 1)
				require.NotEmpty(t, call.Token())
			})
		})
	}
}

func TestWhatIsNoTaskIsAProtocolError(t *testing.T) {
	for name, answer := range map[string]string{
		"no id":                        `{"status":"working"}`,
		"an empty id":                  `{"taskId":"","status":"working"}`,
		"an id that is a number":       `{"taskId":1,"status":"working"}`,
		"another id":                   `{"taskId":"t2","status":"working"}`,
		"an id without end":            `{"taskId":"` + strings.Repeat("x", 5000) + `","status":"working"}`,
		"no status":                    `{"taskId":"t1"}`,
		"an unknown status":            state("complete", "paused", ""),
		"completed without a result":   state("complete", "completed", ""),
		"completed with null":          state("complete", "completed", `"result":null`),
		"failed without an error":      state("complete", "failed", ""),
		"input_required, no questions": state("complete", "input_required", ""),
		"questions that are a list":    state("complete", "input_required", `"inputRequests":[]`),
		"a list":                       `[]`,
		"a string":                     `"working"`,
		"null":                         `null`,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				server := &tasking{on: on{"tasks/get": func(w http.ResponseWriter, h request, n int) { h.answer(w, answer) }}}
				_, _, call := playTask(t, server, client.Config{})
				require.ErrorIs(t, call.Wait(t.Context(), nil), client.ErrProtocol)
				require.NotEmpty(t, call.Token(), "the task may live")
			})
		})
	}
}

// A task may be made by tools/call alone, and by an answer that is one.
func TestWhatMakesNoTask(t *testing.T) {
	for name, test := range map[string]struct{ method, answer string }{
		"no id":               {"tools/call", `{"resultType":"task","status":"working"}`},
		"no status":           {"tools/call", `{"resultType":"task","taskId":"t1"}`},
		"another method":      {"prompts/get", state("task", "working", "")},
		"an unknown type":     {"tools/call", `{"resultType":"promise"}`},
		"a type, not a text":  {"tools/call", `{"resultType":{}}`},
		"questions of none":   {"tools/call", `{"resultType":"input_required"}`},
		"questions, no map":   {"tools/call", `{"resultType":"input_required","inputRequests":[1]}`},
		"the older tasks":     {"tools/call", `{"resultType":"task","task":{"taskId":"t1","status":"working"}}`},
		"a status of no task": {"tools/call", state("task", "submitted", "")},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				server := &tasking{t: t, on: on{test.method: func(w http.ResponseWriter, h request, n int) { h.answer(w, test.answer) }}}
				s := connect(t, serve(t, server), client.Config{})
				params := map[string]any{"name": "x"}
				if test.method != "tools/call" {
					params = nil
				}
				call, err := s.Start(t.Context(), test.method, params)
				require.NoError(t, err)
				require.ErrorIs(t, call.Wait(t.Context(), nil), client.ErrProtocol)
				require.Empty(t, call.Token())
				require.Len(t, server.hits(test.method), 1)
			})
		})
	}
}

func TestPollsKeepBounds(t *testing.T) {
	for asked, want := range map[string]time.Duration{
		"1": 50 * time.Millisecond, "0.001": 50 * time.Millisecond, "300": 300 * time.Millisecond, "86400000": time.Minute, "1e300": time.Minute,
		"0": time.Second, "-5": time.Second, "null": time.Second, `"2000"`: time.Second, "{}": time.Second,
	} {
		bubble(t, func(t *testing.T) {
			at := func(text string) string {
				return strings.Replace(text, `"pollIntervalMs":2000`, `"pollIntervalMs":`+asked, 1)
			}
			server := &tasking{on: on{
				"tools/call": func(w http.ResponseWriter, h request, n int) { h.answer(w, at(state("task", "working", ""))) },
				"tasks/get":  then(at(state("complete", "working", "")), completed()),
			}}
			_, _, call := playTask(t, server, client.Config{})
			require.NoError(t, call.Wait(t.Context(), nil))
			for _, gap := range server.gaps() {
				require.GreaterOrEqual(t, gap, want, asked)
				require.LessOrEqual(t, gap, want+want/5, asked)
			}
		})
	}
}
