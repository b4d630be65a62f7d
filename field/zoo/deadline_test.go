package zoo

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	gintimeout "github.com/gin-contrib/timeout"
	chimw "github.com/go-chi/chi/v5/middleware"
	echomw "github.com/labstack/echo/v4/middleware"
	"github.com/stretchr/testify/require"
)

// limit is how long the middleware of these tests lets a request run; letGoAt is when rejoin lets its client go before that.
const (
	limit   = 2 * time.Second
	letGoAt = 1800 * time.Millisecond
)

// A middleware that gives the request's context a deadline does not end a call: its client is let go before, with a word when to come back,
// and the call ends by polls, however often that is.
func TestADeadlineOfTheContext(t *testing.T) {
	for name, m := range map[string]mount{
		"chi Timeout":         onChi(chimw.Timeout(limit)),
		"echo ContextTimeout": onEcho(echomw.ContextTimeout(limit)),
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, m, 0, func(t *testing.T, w *world) {
				a := w.call("steps", "x")
				require.Equal(t, "primer 1 retry end", a.rest())
				require.Equal(t, letGoAt, w.passed())
				a = w.poll(a.last)
				require.Equal(t, "primer retry end", a.rest(), "a poll has the same limit")
				require.Equal(t, 2*letGoAt, w.passed())
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
				require.Equal(t, letGoAt, w.passed()-began)
				require.Empty(t, w.lines.all())
			})
		})
	}
}

// What gathers whole responses leaves plain JSON, if the call ends in time. Another one is let go before the limit, by a response that is
// whole as well, and ends by polls.
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
				require.Equal(t, letGoAt, w.passed()-began)
				w.open("ya")
				w.open("yb")
				w.soon(5*limit, "yc")
				require.NoError(t, w.wait(t.Context(), "yc"))
				synctest.Wait() // the tool has answered
				require.Equal(t, `primer 2 3 "done" end`, w.poll(a.last).rest())
				require.Equal(t, said[whole], w.lines.all())
			})
		})
	}
}

// gin-contrib's timeout gathers responses too, but says that it can flush. A call of any length ends by polls, none of which gets near the
// limit.
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

// The WriteTimeout of an http.Server counts from the request's arrival. Behind nearly every middleware a stream outlives it. Where the
// middleware's writer hides write deadlines, the client is let go before, and one line says so.
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
				require.Equal(t, letGoAt, w.passed())
				require.NoError(t, w.wait(t.Context(), "x"+"c"))
				require.Equal(t, `primer 2 3 "done" end`, w.poll(a.last).rest())
				require.Equal(t, []string{
					"rejoin: the response writer has no write deadlines: streams are closed before the server's WriteTimeout (said once)",
					"rejoin: a client was let go and has not come back, so its session does not let it go again: if this kind never comes back, " +
						"say so with Config.CanPoll, which saves the first call of each session too (said once for each client and version)",
				}, w.lines.all(), "it came back, but late")
			})
		})
	}
}
