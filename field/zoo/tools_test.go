package zoo

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
	gin.SetMode(gin.ReleaseMode) // it prints every route else
	os.Exit(m.Run())
}

// gates hold tools until the test has seen what they sent before.
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

// app has the tools of this test. None of them waits for time to pass, only for the client.
func (g *gates) app() rejoin.App {
	return rejoin.NewApp(rejoin.Info{Name: "zoo", Version: "1", Capabilities: map[string]any{"tools": struct{}{}}}, func(ctx context.Context, r *rejoin.Request) (any, error) {
		h := rejoin.HandleFromContext(ctx)
		var args struct{ Key string }
		if err := r.BindArguments(&args); err != nil {
			return nil, err
		}
		switch r.Name() {
		case "steps": // event by event: the next one only when the client has seen this one
			for step, name := range []string{"a", "b", "c"} {
				if err := h.Progress(float64(step+1), 0, ""); err != nil {
					return nil, err
				}
				if err := g.wait(ctx, args.Key+name); err != nil {
					return nil, err
				}
			}
		case "close": // lets its client go, and works on when it has gone
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
		case "slow": // nothing at all until it is told
			if err := g.wait(ctx, args.Key); err != nil {
				return nil, err
			}
		case "notify":
			// Not with the call's context: it would go to the call's stream.
			if err := h.Session().Notify(context.Background(), "notifications/zoo", nil); err != nil {
				return nil, err
			}
		}
		return "done", nil
	})
}

// journal keeps what the server logs.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }
func (j *journal) WithAttrs([]slog.Attr) slog.Handler           { return j }
func (j *journal) WithGroup(string) slog.Handler                { return j }
func (j *journal) Handle(_ context.Context, r slog.Record) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, r.Message)
	return nil
}

func (j *journal) all() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.lines)
}
