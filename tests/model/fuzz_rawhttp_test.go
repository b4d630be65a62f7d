package model_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/internal/rawhttp"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// FuzzRawHTTP sends bytes to a real http.Server with a NewToolApp behind it. Package rawhttp defines the scripts, and what must come back. what
// has bits: a policy, and what the server offers.
func FuzzRawHTTP(f *testing.F) {
	for _, script := range rawhttp.Seeds() {
		for _, what := range []setting{eraBoth, eraBoth | modeSSE, ownModern, modeJSON, noStandalone} {
			f.Add([]byte(script), uint8(what))
		}
		f.Add([]byte(script), uint8(eraBoth|closeAfter))
	}
	f.Fuzz(func(t *testing.T, script []byte, what uint8) {
		kit.Bubble(t, func(t *testing.T) { rawhttp.Play(t, rawSubject(t, setting(what)), script) })
	})
}

// ownModern lets NewToolApp answer modern requests. Without it rawApp does.
const ownModern = eraBoth | modeJSON

// closeAfter closes each stream after a second. It is the bit of draining, which cannot be combined with raw connections.
const closeAfter = draining

func rawSubject(t *testing.T, what setting) rawhttp.Subject {
	cfg := rejoin.Config{MaxBodyBytes: 8 << 10, NoStandalone: what&noStandalone != 0}
	switch {
	case what&modeSSE != 0:
		cfg.Policy.Mode = rejoin.ModeSSE
	case what&modeJSON != 0:
		cfg.Policy.Mode = rejoin.ModeJSON
	}
	if what&closeAfter != 0 && what&modeJSON == 0 {
		cfg.Policy.CloseAfter = time.Second
	}
	if what&eraBoth != 0 {
		cfg.Eras = rejoin.EraBoth
	}
	app := rejoin.NewToolApp(rejoin.Info{Name: "raw", Version: "1"}, rawTools()...)
	if what&ownModern != ownModern {
		app = rawApp{app}
	}
	return kit.RawSubject(t, app, cfg)
}

// rawTools are the tools that the scripts call.
func rawTools() []rejoin.Tool {
	tell := func(ctx context.Context) {
		_ = rejoin.HandleFromContext(ctx).Notify("notifications/message", map[string]string{"level": "info", "data": "a\u2028\r\n\x00"}) // it may be gone
	}
	tool := func(name string, run func(context.Context) (any, error)) rejoin.Tool {
		return rejoin.Tool{Name: name, Run: func(ctx context.Context, _ *rejoin.Request) (any, error) { return run(ctx) }}
	}
	return []rejoin.Tool{
		tool("quick", func(context.Context) (any, error) { return rejoin.Text("done"), nil }),
		tool("fail", func(context.Context) (any, error) { return nil, errors.New("it fails") }),
		tool("nothing", func(context.Context) (any, error) { return nil, nil }),
		tool("log", func(ctx context.Context) (any, error) { tell(ctx); return "done", nil }),
		tool("progress", func(ctx context.Context) (any, error) {
			for i := range 3 {
				rejoin.HandleFromContext(ctx).Progress(float64(i), 3, "more")
				tell(ctx)
				kit.Elapse(60 * time.Millisecond)
			}
			return rejoin.Text("done"), nil
		}),
		tool("poll", func(ctx context.Context) (any, error) {
			tell(ctx)
			_ = rejoin.HandleFromContext(ctx).CloseStream(0) // some clients cannot poll
			tell(ctx)
			select {
			case <-ctx.Done():
			case <-time.After(3 * time.Second):
			}
			tell(ctx)
			return rejoin.Text("done"), ctx.Err()
		}),
		tool("block", func(ctx context.Context) (any, error) {
			tell(ctx)
			<-ctx.Done()
			return nil, ctx.Err()
		}),
		tool("ask", func(ctx context.Context) (any, error) {
			var answer json.RawMessage
			err := rejoin.HandleFromContext(ctx).Ask(ctx, "elicitation/create", map[string]any{"message": "?"}, &answer)
			return answer, err
		}),
	}
}

// rawApp has a handler of the modern era that answers in each possible form.
type rawApp struct{ rejoin.App }

func (rawApp) Modern() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var m struct {
			ID     json.RawMessage
			Params struct{ Name string }
		}
		if err != nil || json.Unmarshal(body, &m) != nil || m.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		result := []byte(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{}}`)
		switch m.Params.Name {
		case "block":
			w.Header().Set("Content-Type", "text/event-stream")
			w.WriteHeader(http.StatusOK)
			<-r.Context().Done()
		case "progress":
			w.Header().Set("Content-Type", "text/event-stream")
			for range 3 {
				_, _ = w.Write([]byte("event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n\n")) // the client may have disconnected
				kit.Elapse(60 * time.Millisecond)
			}
			_, _ = fmt.Fprintf(w, "event: message\ndata: %s\n\n", result)
		default:
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(result)
		}
	})
}
