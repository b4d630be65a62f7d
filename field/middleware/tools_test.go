package middleware

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/rejoin-mcp/rejoin"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.ReleaseMode) // otherwise it prints every route
	os.Exit(m.Run())
}

// gates block tools, each under a key, until the test has seen what they sent before.
type gates struct {
	mu  sync.Mutex
	all map[string]chan struct{}
}

func (g *gates) get(key string) chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.all == nil {
		g.all = map[string]chan struct{}{}
	}
	if g.all[key] == nil {
		g.all[key] = make(chan struct{})
	}
	return g.all[key]
}

func (g *gates) open(key string) { close(g.get(key)) }

func (g *gates) wait(ctx context.Context, key string) error {
	select {
	case <-g.get(key):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// app has the tools of this test. They wait only for gates, never for time.
func (g *gates) app() rejoin.App {
	return rejoin.NewApp(rejoin.Info{Name: "mw", Version: "1", Capabilities: map[string]any{"tools": struct{}{}}}, func(ctx context.Context, r *rejoin.Request) (any, error) {
		h := rejoin.HandleFromContext(ctx)
		var args struct{ Key string }
		if err := r.BindArguments(&args); err != nil {
			return nil, err
		}
		switch r.Name() {
		case "steps": // sends three events, and waits after each
			for step, name := range []string{"a", "b", "c"} {
				if err := h.Progress(float64(step+1), 0, ""); err != nil {
					return nil, err
				}
				if err := g.wait(ctx, args.Key+name); err != nil {
					return nil, err
				}
			}
		case "close": // disconnects its client, and goes on after that
			if err := h.Progress(1, 0, ""); err != nil {
				return nil, err
			}
			if err := h.CloseStream(0); err != nil {
				return "kept", nil //nolint:nilerr // the client keeps its connection: the test looks at that
			}
			if err := g.wait(ctx, args.Key); err != nil {
				return nil, err
			}
			if err := h.Progress(2, 0, ""); err != nil {
				return nil, err
			}
		case "slow": // sends nothing
			if err := g.wait(ctx, args.Key); err != nil {
				return nil, err
			}
		case "notify":
			// Not with the call's context: it would go to the call's stream.
			if err := h.Session().Notify(context.Background(), "notifications/x", nil); err != nil {
				return nil, err
			}
		}
		return "done", nil
	})
}

// logRecords is a log handler that keeps the messages.
type logRecords struct {
	mu    sync.Mutex
	lines []string
}

func (j *logRecords) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }
func (j *logRecords) WithAttrs([]slog.Attr) slog.Handler           { return j }
func (j *logRecords) WithGroup(string) slog.Handler                { return j }
func (j *logRecords) Handle(_ context.Context, r slog.Record) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, r.Message)
	return nil
}

func (j *logRecords) all() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.lines)
}
