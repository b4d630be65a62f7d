package middleware

import (
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	gintimeout "github.com/gin-contrib/timeout"
	chimw "github.com/go-chi/chi/v5/middleware"
	echomw "github.com/labstack/echo/v4/middleware"
	"github.com/stretchr/testify/require"
)

// limit is how long the middleware of these tests lets a request run; closeAt is when rejoin closes the stream before that.
const (
	limit   = 2 * time.Second
	closeAt = 1800 * time.Millisecond
)

// A middleware that gives the request's context a deadline does not end a call: the client is disconnected before the deadline, with a retry, and
// polls as often as needed.
func TestADeadlineOfTheContext(t *testing.T) {
	for name, m := range map[string]mount{
		"chi Timeout":         onChi(chimw.Timeout(limit)),
		"echo ContextTimeout": onEcho(echomw.ContextTimeout(limit)),
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, m, 0, func(t *testing.T, w *world) {
				a := w.call("steps", "x")
				require.Equal(t, "primer 1 retry end", a.rest())
				require.Equal(t, closeAt, w.passed())
				a = w.poll(a.last)
				require.Equal(t, "primer retry end", a.rest(), "a poll has the same limit")
				require.Equal(t, 2*closeAt, w.passed())
				w.open("xa")
				a = w.poll(a.last)
				require.Equal(t, "primer 2 retry end", a.rest())
				w.open("xb")
				w.open("xc")
				require.Equal(t, `primer 3 "done" end`, w.poll(a.last).rest())

				a = w.call("slow", "y")
				require.Equal(t, "primer retry end", a.rest(), "also where the tool has sent nothing")
				w.soon(limit/2, "y")
				require.Equal(t, `primer "done" end`, w.poll(a.last).rest())

				began := w.passed()
				require.Equal(t, "primer retry end", w.send(http.MethodGet, nil).rest(), "the standalone stream has it too")
				require.Equal(t, closeAt, w.passed()-began)
				require.Empty(t, w.lines.all())
			})
		})
	}
}

// A middleware that buffers whole responses passes a plain JSON answer, if the call ends in time. In a longer call the client is disconnected
// before the limit, with a response that ends, and polls.
func TestAMiddlewareThatGathersResponses(t *testing.T) {
	mounts := map[string]mount{
		"echo Timeout": onEcho(echomw.TimeoutWithConfig(echomw.TimeoutConfig{Timeout: limit})), //nolint:staticcheck // people still have it
	}
	for _, r := range routers {
		mounts[r.name+" http.TimeoutHandler"] = around(r.mount, func(h http.Handler) http.Handler { return http.TimeoutHandler(h, limit, "") })
	}
	for name, m := range mounts {
		t.Run(name, func(t *testing.T) {
			virtually(t, m, 0, func(t *testing.T, w *world) {
				w.soon(limit/2, "x")
				a := w.call("slow", "x")
				require.Equal(t, http.StatusOK, a.StatusCode)
				require.Equal(t, `"done"`, shape(t, a.whole()))
				require.Equal(t, limit/2, w.passed())

				began := w.passed()
				a = w.call("steps", "y")
				require.Equal(t, "primer retry end", a.rest(), "progress was dropped: it could not be streamed")
				require.Equal(t, closeAt, w.passed()-began)
				w.open("ya")
				w.open("yb")
				w.soon(5*limit, "yc")
				require.NoError(t, w.wait(t.Context(), "yc"))
				synctest.Wait() // until the tool has answered
				require.Equal(t, `primer 2 3 "done" end`, w.poll(a.last).rest())
				require.Equal(t, said[whole], slices.Compact(w.lines.all()), "each process says it once")
			})
		})
	}
}

// gin-contrib's timeout buffers responses too, but its writer claims that it can flush. A call of any length is polled, and no poll lasts
// nearly as long as the limit.
func TestGinContribTimeout(t *testing.T) {
	virtually(t, onGin(gintimeout.New(gintimeout.WithTimeout(limit))), 0, func(t *testing.T, w *world) {
		w.soon(10*limit, "x")
		a := w.call("slow", "x")
		require.Equal(t, "primer retry end", a.rest())
		require.Equal(t, 100*time.Millisecond, w.passed(), "as soon as it is a stream")
		a = w.poll(a.last)
		require.Equal(t, "primer retry end", a.rest())
		require.Equal(t, 100*time.Millisecond, w.passed(), "a poll brings what is there")
		require.NoError(t, w.wait(t.Context(), "x"))
		for a = w.poll(a.last); ; a = w.poll(a.last) {
			if rest := a.rest(); rest != "primer retry end" {
				require.Equal(t, `primer "done" end`, rest)
				break
			}
		}
		require.Equal(t, said[later], w.lines.all())
	})
}

// The WriteTimeout of an http.Server begins with the request. Behind nearly every middleware a stream outlives it. If a middleware's writer
// hides write deadlines, the client is disconnected before, and one log line says so.
func TestWriteTimeout(t *testing.T) {
	for _, r := range rows() {
		if r.plain != stream || r.origin != "" {
			continue
		}
		t.Run(r.router+" "+r.middleware, func(t *testing.T) {
			virtually(t, r.mount, limit, func(t *testing.T, w *world) {
				w.client.gzip = true
				w.soon(10*limit, "xa", "xb", "xc")
				a := w.call("steps", "x")
				if !r.hides {
					require.Equal(t, `primer 1 2 3 "done" end`, a.rest())
					require.Equal(t, 10*limit, w.passed())
					require.Empty(t, w.lines.all())
					return
				}
				require.Equal(t, "primer 1 retry end", a.rest())
				require.Equal(t, closeAt, w.passed())
				require.NoError(t, w.wait(t.Context(), "x"+"c"))
				require.Equal(t, `primer 2 3 "done" end`, w.poll(a.last).rest())
				require.Equal(t, []string{
					"rejoin: the response writer has no write deadlines: streams are closed before the server's WriteTimeout (said once)",
					"rejoin: a client was told to come back and did not, so CloseAfter and CloseStream have no effect in its session until it does; " +
						"if it never does, say so with Config.CanPoll, which also saves the first call of each session (said once for each client and version)",
				}, w.lines.all(), "it came back, but late")
			})
		})
	}
}
