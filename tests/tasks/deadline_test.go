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

// noDeadlines hides write deadlines, as many middlewares do.
type noDeadlines struct{ http.ResponseWriter }

func (w noDeadlines) Flush() { w.ResponseWriter.(http.Flusher).Flush() }

// If something will cut the answer before TaskAfter, the call becomes a task before: by a tenth of the time. The tool does not feel the limit.
func TestATaskIsMadeBeforeALimitCutsTheAnswer(t *testing.T) {
	const limit = 10 * time.Second
	for name, behind := range map[string]func(http.Handler) http.Handler{
		"a deadline of a middleware": func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				ctx, cancel := context.WithTimeout(r.Context(), limit)
				defer cancel()
				h.ServeHTTP(w, r.WithContext(ctx))
			})
		},
		"a WriteTimeout that cannot be moved": func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(noDeadlines{w}, r) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				app, next := kit.ManualTools()
				c := rejointest.New(t, app, rejointest.Config{
					Server:  rejoin.Config{Eras: rejoin.EraBoth, Policy: rejoin.Policy{TaskAfter: time.Minute}},
					Handler: func(srv *rejoin.Server) http.Handler { return behind(stdadapter.New(srv)) },
					HTTP:    func(s *http.Server) { s.WriteTimeout = limit },
				})
				w := &world{Client: c, t: t, next: next, caps: answering}
				began := time.Now()
				id, tool := w.task()
				require.Equal(t, limit-limit/10, time.Since(began))
				kit.Elapse(5 * time.Minute)
				require.NoError(t, tool.Cause())
				tool.Returns(map[string]any{"content": []any{}})
				require.Equal(t, "completed", w.settled(id)["status"])
			})
		})
	}
}
