package tasks_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// lossyWriter is the writer of a client that cannot be reached: what lose does happens at each write after the first pass ones.
type lossyWriter struct {
	kit.Response

	pass  int
	lose  func() error
	heads int
}

func (w *lossyWriter) WriteHeader(status int) {
	w.heads++
	w.Response.WriteHeader(status)
}

func (w *lossyWriter) Write(p []byte) (int, error) {
	if w.pass--; w.pass >= 0 {
		return w.Response.Write(p)
	}
	if err := w.lose(); err != nil {
		return 0, err
	}
	return w.Response.Write(p)
}

// serve serves a request with a writer, in a goroutine of its own. It returns what the handler panicked with.
func (w *world) serve(rw http.ResponseWriter, r *http.Request) chan any {
	panicked := make(chan any, 1)
	go func() {
		defer func() { panicked <- recover() }()
		w.Server().Serve(rw, r)
	}()
	synctest.Wait()
	return panicked
}

// The answer that makes a task may be lost, and there is no way to ask for it again. So if it could not be written, the call is cancelled as by a
// disconnect, and nothing of the task is left.
func TestATaskWhoseAnswerCannotBeWritten(t *testing.T) {
	for name, test := range map[string]struct {
		streams bool
		lose    func() error
		panics  any
	}{
		"JSON":               {false, func() error { return errors.New("broken pipe") }, nil},
		"a stream":           {true, func() error { return errors.New("broken pipe") }, nil},
		"a writer panics":    {false, func() error { panic("middleware") }, "middleware"},
		"within a stream":    {true, func() error { panic("middleware") }, "middleware"},
		"the handler aborts": {false, func() error { panic(http.ErrAbortHandler) }, http.ErrAbortHandler},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				w := begin(t, rejoin.Config{Logger: kit.QuietLogger()})
				rw := &lossyWriter{Response: kit.Response{Head: http.Header{}}, lose: test.lose}
				if test.streams {
					rw.pass = 1
				}
				panicked := w.serve(rw, w.call())
				tool := w.next()
				if test.streams {
					require.NoError(t, tool.Progress(1, 2, "one"))
				}
				require.NoError(t, tool.Cause())
				kit.Elapse(time.Second)
				require.Error(t, tool.Cause())
				kit.Elapse(time.Second)
				require.Equal(t, test.panics, <-panicked)
				require.LessOrEqual(t, rw.heads, 1, "one head")
				require.ErrorIs(t, tool.Progress(1, 2, "late"), rejoin.ErrEnded)
				require.False(t, tool.Resumable())
				w.requireNothingLeft()
				require.NoError(t, w.Server().Drain(context.Background()), "nothing to wait for")
			})
		})
	}
}

// A client that does not read its answer makes no task: WriteTimeout ends the wait.
func TestATaskWhoseAnswerIsNotRead(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := begin(t, rejoin.Config{Logger: kit.QuietLogger()})
		rw := &timedWriter{kit.Response{Head: http.Header{}}, make(chan time.Time, 10)}
		panicked := w.serve(rw, w.call())
		tool := w.next()
		kit.Elapse(time.Second)
		synctest.Wait()
		require.EqualValues(t, 1, w.Server().Stats().Tasks)
		kit.Elapse(30 * time.Second)
		require.ErrorContains(t, tool.Cause(), "i/o timeout")
		kit.Elapse(time.Second)
		require.Nil(t, <-panicked)
		w.requireNothingLeft()
	})
}

// timedWriter never takes anything before its deadline.
type timedWriter struct {
	kit.Response

	deadlines chan time.Time
}

func (w *timedWriter) SetWriteDeadline(at time.Time) error {
	select {
	case <-w.deadlines:
	default:
	}
	w.deadlines <- at
	return nil
}

func (w *timedWriter) Write([]byte) (int, error) {
	<-time.After(time.Until(<-w.deadlines))
	return 0, errors.New("i/o timeout")
}

// A client that goes before the turn cancels its call, and one that goes after it does not. At that instant it is one of the two: a cancelled call
// without a task, or a task that runs.
func TestADisconnectAtTheTurn(t *testing.T) {
	tasks, cancelled := 0, 0
	for range 200 {
		kit.Bubble(t, func(t *testing.T) {
			w := begin(t, rejoin.Config{})
			ctx, cancel := context.WithCancelCause(context.Background())
			gone := errors.New("gone")
			time.AfterFunc(time.Second, func() { cancel(gone) })
			res := w.open(w.call().WithContext(ctx))
			tool := w.next()
			kit.Elapse(2 * time.Second)
			running := w.Server().Stats().TasksRunning
			switch cause := tool.Cause(); {
			case cause == nil:
				require.EqualValues(t, 1, running)
				id := at(read(t, res)[0], "result", "taskId").(string)
				require.Equal(t, "working", w.get(id)["status"])
				tasks++
			default:
				require.Equal(t, gone, cause)
				w.requireNothingLeft()
				cancelled++
			}
			require.True(t, ended(res))
		})
	}
	t.Logf("%d tasks, %d cancelled", tasks, cancelled)
}

// The result and the turn at one instant: the client gets the result, in one way or the other.
func TestAResultAtTheTurn(t *testing.T) {
	tasks := 0
	for i := range 200 {
		kit.Bubble(t, func(t *testing.T) {
			w := begin(t, rejoin.Config{})
			res := w.open(w.call())
			tool := w.next()
			if i%2 == 0 {
				go func() { kit.Elapse(time.Second); _ = tool.CloseStream(0) }()
			}
			go func() { kit.Elapse(time.Second); tool.Answer <- map[string]any{"content": []any{i}} }()
			kit.Elapse(2 * time.Second)
			answer := read(t, res)[0]
			if at(answer, "result", "resultType") == "task" {
				tasks++
				require.Equal(t, []any{float64(i)}, at(w.get(at(answer, "result", "taskId").(string)), "result", "content"))
				return
			}
			require.Equal(t, []any{float64(i)}, at(answer, "result", "content"))
			w.requireNothingLeft()
		})
	}
	t.Logf("%d tasks", tasks)
}

// A result that has begun to come when TaskAfter passes goes on to its client.
func TestAResultThatHasBegunAtTheTurn(t *testing.T) {
	half := len(rawResult) / 2
	for name, test := range map[string]struct {
		do   func(rawCall)
		want string
	}{
		"JSON": {func(c rawCall) {
			c.json(200, rawResult[:half])
			kit.Elapse(time.Minute)
			c.puts(rawResult[half:])
		}, rawResult},
		"JSON, only its head": {func(c rawCall) {
			c.Header().Set("Content-Type", "application/json")
			c.WriteHeader(http.StatusOK)
			kit.Elapse(time.Minute)
			c.puts(rawResult)
		}, rawResult},
		"an event": {func(c rawCall) {
			c.streams()
			c.puts(event(rawResult)[:half])
			kit.Elapse(time.Minute)
			c.puts(event(rawResult)[half:])
		}, event(rawResult)},
		"an event, and the handler stays": {func(c rawCall) {
			c.streams()
			c.puts(event(rawResult))
			kit.Elapse(10 * time.Second)
		}, event(rawResult)},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				w := beginWith(t, rawApp(rawDiscover, test.do), configured(rejoin.Config{}))
				require.Equal(t, test.want, body(t, w, w.call()))
				w.requireNothingLeft()
				require.Zero(t, w.Server().Stats().TasksMade)
			})
		})
	}
}

// An event that has begun when TaskAfter passes is completed before the task follows.
func TestAnEventThatHasBegunAtTheTurn(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := beginWith(t, rawApp(rawDiscover, func(c rawCall) {
			c.streams()
			first := event(rawProgress("one"))
			c.puts(first[:20])
			kit.Elapse(time.Minute)
			c.puts(first[20:] + ": comment\n\n" + event(rawProgress("two"))[:5])
			kit.Elapse(time.Minute)
			c.puts(event(rawProgress("two"))[5:])
			kit.Elapse(time.Minute)
			c.puts(event(rawProgress("three")) + event(rawResult))
		}), configured(rejoin.Config{KeepAlive: -1}))
		res := w.open(w.call())
		kit.Elapse(3*time.Minute - time.Second)
		all := read(t, res)
		require.Len(t, all, 3)
		require.Equal(t, []any{"one", "two", "task"}, []any{at(all[0], "params", "message"), at(all[1], "params", "message"), at(all[2], "result", "resultType")})
		require.True(t, ended(res))
		id := at(all[2], "result", "taskId").(string)
		require.Equal(t, "working", w.get(id)["status"])
		require.Equal(t, "two", w.get(id)["statusMessage"], "the last that was said")
		kit.Elapse(time.Second)
		require.Equal(t, "three", w.settled(id)["statusMessage"])
		require.Equal(t, "completed", w.settled(id)["status"])
	})
}

// Progress before the turn is on the stream, and after it in the task: each once, in order, and the task knows the last one from its beginning.
func TestProgressAroundTheTurn(t *testing.T) {
	for _, token := range []bool{true, false} {
		kit.Bubble(t, func(t *testing.T) {
			w := begin(t, rejoin.Config{})
			r := w.call()
			if !token {
				w.caps = answering + `,"x":{}`
				r = w.request("tools/call", "x", `,"name":"x"`)
			}
			res := w.open(r)
			tool := w.next()
			for i := range 40 {
				require.NoError(t, tool.Progress(float64(i), 0, ""))
				kit.Elapse(time.Second / 20)
			}
			all := read(t, res)
			seen := 0
			for i, m := range all[:len(all)-1] {
				require.EqualValues(t, i, at(m, "params", "progress"))
				seen++
			}
			last := all[len(all)-1]
			require.Equal(t, "task", at(last, "result", "resultType"))
			require.InDelta(t, 20, seen, 1)
			require.Contains(t, []any{"19", "20"}, at(last, "result", "statusMessage"))
			require.Equal(t, "39", w.get(at(last, "result", "taskId").(string))["statusMessage"])
		})
	}
}

// The end of the server and the turn at one instant: no task is left that nothing ends.
func TestTheEndOfTheServerAtTheTurn(t *testing.T) {
	for range 100 {
		kit.Bubble(t, func(t *testing.T) {
			w := begin(t, rejoin.Config{})
			res := w.open(w.call())
			tool := w.next()
			go func() { kit.Elapse(time.Second); w.Server().Close() }()
			kit.Elapse(2 * time.Second)
			require.ErrorIs(t, tool.Cause(), rejoin.ErrShutdown)
			require.Zero(t, w.Server().Stats().TasksRunning)
			answer := read(t, res)[0]
			if at(answer, "result", "resultType") == "task" {
				require.Equal(t, []any{"failed", -32000.0, "shutdown"}, failure(w.get(at(answer, "result", "taskId").(string))))
				return
			}
			require.Equal(t, "too late", answer["result"], "the tool has answered when it was told")
		})
	}
}
