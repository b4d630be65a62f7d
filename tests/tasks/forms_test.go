package tasks_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// bare hides all but the minimum of a writer: nothing can be flushed through it, and it has no deadlines.
type bare struct{ http.ResponseWriter }

// The answer that makes a task has the form that the client accepts, behind each kind of writer.
func TestTheFormOfATask(t *testing.T) {
	const jsonType, sseType = "application/json", "text/event-stream"
	for _, test := range []struct{ accept, want string }{
		{"application/json, text/event-stream", jsonType},
		{"application/json", jsonType},
		{"text/event-stream", sseType},
		{"text/event-stream, application/json;q=0", sseType},
		{"*/*", jsonType},
		{"text/html", jsonType}, // the app decides what it refuses; this one does not
	} {
		for _, flushes := range []bool{true, false} {
			t.Run(test.accept, func(t *testing.T) {
				kit.Bubble(t, func(t *testing.T) {
					w := beginWith(t, rawApp(rawDiscover, func(c rawCall) {
						kit.Elapse(time.Minute)
						c.streams()
						c.puts(event(rawResult))
					}), rejointest.Config{Handler: func(s *rejoin.Server) http.Handler {
						h := stdadapter.New(s)
						return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
							if !flushes {
								rw = bare{rw}
							}
							h.ServeHTTP(rw, r)
						})
					}})
					began := time.Now()
					text, res := kit.ReadAll(t, w.Do(w.call("Accept", test.accept)))
					require.Equal(t, time.Second, time.Since(began))
					require.Equal(t, http.StatusOK, res.StatusCode)
					require.Equal(t, test.want, res.Header.Get("Content-Type"))
					if test.want == sseType {
						require.Regexp(t, `^event: message\ndata: .*\n\n$`, text)
						require.Equal(t, "no-cache, no-transform", res.Header.Get("Cache-Control"))
					}
					require.Contains(t, text, `"resultType":"task"`)
					kit.Elapse(time.Minute)
					require.EqualValues(t, 1, w.Server().Stats().Tasks)
					require.Zero(t, w.Server().Stats().TasksRunning)
				})
			})
		}
	}
}

// A task's methods answer in the form that the client accepts.
func TestTheFormOfWhatIsSaidOfATask(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := begin(t, rejoin.Config{})
		id, tool := w.task()
		tool.Returns(map[string]any{"content": []any{}})
		for method, more := range map[string]string{"tasks/get": "", "tasks/cancel": "", "tasks/update": `,"inputResponses":{}`} {
			whole := body(t, w, w.request(method, id, `,"taskId":"`+id+`"`+more, "Accept", "application/json"))
			w.last--
			require.Equal(t, "event: message\ndata: "+whole+"\n\n", body(t, w, w.request(method, id, `,"taskId":"`+id+`"`+more, "Accept", "text/event-stream")))
		}
	})
}

// A stream whose head has left makes a task too, also where nothing of it can leave before its end. What was said before is in it, once.
func TestATaskInAStreamThatHasBegun(t *testing.T) {
	for name, flushes := range map[string]bool{"flushed": true, "not flushed": false} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				w := beginWith(t, rawApp(rawDiscover, func(c rawCall) {
					c.streams()
					c.puts(event(rawProgress("one")))
					kit.Elapse(time.Minute)
					c.puts(event(rawProgress("two")) + event(rawResult))
				}), configured(rejoin.Config{Logger: kit.QuietLogger()}))
				res := &kit.Response{Head: http.Header{}}
				var rw http.ResponseWriter = res
				if !flushes {
					rw = bare{res}
				}
				over := w.serve(rw, w.call())
				kit.Elapse(2 * time.Second)
				require.Nil(t, <-over)
				all := read(t, res)
				require.Len(t, all, 2)
				require.Equal(t, "one", at(all[0], "params", "message"))
				require.Equal(t, "one", at(all[1], "result", "statusMessage"))
				id := at(all[1], "result", "taskId").(string)
				kit.Elapse(time.Minute)
				require.Equal(t, "completed", w.settled(id)["status"])
			})
		})
	}
}

// A stream that has no room for others' events, because of its length or its encoding, stays with its client.
func TestAStreamWithoutRoomForATask(t *testing.T) {
	for name, value := range map[string]string{"Content-Length": "80", "Content-Encoding": "gzip"} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				w := beginWith(t, rawApp(rawDiscover, func(c rawCall) {
					c.Header().Set(name, value)
					c.streams()
					kit.Elapse(time.Minute)
					c.puts(event(`{"jsonrpc":"2.0","id":1,"result":{}}                     `))
				}), configured(rejoin.Config{}))
				res := w.open(w.call())
				kit.Elapse(2 * time.Minute)
				require.True(t, ended(res))
				require.Len(t, text(res), 80)
				require.Zero(t, w.Server().Stats().TasksMade)
			})
		})
	}
}

// Where something outside cuts a response at a time, the task is made before it, although TaskAfter is later: at a WriteTimeout that cannot be
// lifted, and at a middleware's deadline on the context.
func TestATaskBeforeTheCut(t *testing.T) {
	for name, test := range map[string]struct {
		cut  func(*http.Request) (*http.Request, context.CancelFunc)
		want time.Duration
	}{
		"WriteTimeout": {func(r *http.Request) (*http.Request, context.CancelFunc) {
			return r.WithContext(context.WithValue(r.Context(), http.ServerContextKey, &http.Server{WriteTimeout: 10 * time.Second, ReadHeaderTimeout: time.Second})), func() {}
		}, 9 * time.Second},
		"a deadline": {func(r *http.Request) (*http.Request, context.CancelFunc) {
			ctx, cancel := context.WithTimeout(r.Context(), 20*time.Second)
			return r.WithContext(ctx), cancel
		}, 18 * time.Second},
		"a short deadline": {func(r *http.Request) (*http.Request, context.CancelFunc) {
			ctx, cancel := context.WithTimeout(r.Context(), 100*time.Millisecond)
			return r.WithContext(ctx), cancel
		}, 50 * time.Millisecond},
		"none": {func(r *http.Request) (*http.Request, context.CancelFunc) { return r, func() {} }, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				w := begin(t, rejoin.Config{Policy: rejoin.Policy{TaskAfter: time.Minute}, Logger: kit.QuietLogger()})
				r, cancel := test.cut(w.call())
				defer cancel()
				res := w.open(r)
				tool := w.next()
				kit.Elapse(test.want - time.Nanosecond)
				require.False(t, ended(res))
				kit.Elapse(time.Nanosecond)
				require.Equal(t, "task", at(read(t, res)[0], "result", "resultType"))
				require.True(t, ended(res))
				kit.Elapse(time.Hour / 10)
				require.NoError(t, tool.Cause(), "the end of the request's context is none of the call")
				_, limited := tool.Ctx.Deadline()
				require.False(t, limited)
				require.NoError(t, tool.Progress(1, 2, "on"))
			})
		})
	}
}

// Behind http.TimeoutHandler, which buffers whole answers, the client gets a task too.
func TestATaskBehindTimeoutHandler(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		w := beginWith(t, app, rejointest.Config{
			Server: rejoin.Config{Policy: rejoin.Policy{TaskAfter: time.Minute}, Logger: kit.QuietLogger()},
			Handler: func(s *rejoin.Server) http.Handler {
				return http.TimeoutHandler(stdadapter.New(s), 10*time.Second, "late")
			},
		})
		id := w.makeTask()
		tool := next()
		kit.Elapse(time.Minute)
		require.NoError(t, tool.Cause())
		tool.Returns(map[string]any{"content": []any{}})
		require.Equal(t, "completed", w.get(id)["status"])
	})
}
