package rejointest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

var info = rejoin.Info{Name: "test", Version: "1", Capabilities: map[string]any{"tools": struct{}{}}}

// tool is an app whose requests, initialize and ping aside, are all answered by f: with its result as it is, and {} for nil.
func tool(f func(ctx context.Context, h *rejoin.Handle) (any, error)) rejoin.App {
	return rejoin.NewApp(info, func(ctx context.Context, _ *rejoin.Request) (any, error) {
		result, err := f(ctx, rejoin.HandleFromContext(ctx))
		switch {
		case err != nil:
			return nil, err
		case result == nil:
			return struct{}{}, nil
		}
		raw, err := json.Marshal(result)
		return json.RawMessage(raw), err
	})
}

// progress are the progress values among messages, in order.
func progress(t *testing.T, messages []json.RawMessage) (values []int) {
	t.Helper()
	for _, raw := range messages {
		var m struct {
			Method string
			Params struct{ Progress int }
		}
		require.NoError(t, json.Unmarshal(raw, &m))
		if m.Method == "notifications/progress" {
			values = append(values, m.Params.Progress)
		}
	}
	return values
}

// spy stands for the t of a test that is expected to fail. Its cleanups and its log are the real one's.
type spy struct {
	testing.TB
	failures []string
}

func (s *spy) Errorf(format string, args ...any) {
	s.failures = append(s.failures, fmt.Sprintf(format, args...))
}

func (s *spy) Fatalf(format string, args ...any) {
	s.Errorf(format, args...)
	runtime.Goexit()
}

func (s *spy) Fatal(args ...any) { s.Fatalf("%s", fmt.Sprint(args...)) }

// failures are what a test that does f reports.
func failures(t *testing.T, app rejoin.App, cfg rejointest.Config, f func(*rejointest.Client)) string {
	t.Helper()
	s := &spy{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(rejointest.New(s, app, cfg))
	}()
	<-done
	return strings.Join(s.failures, "\n")
}

// script is a server that answers each request other than those that open the session with the next of bodies, as a stream. A
// body that is empty is a 204.
func script(bodies ...string) rejointest.Config {
	return rejointest.Config{Handler: func(srv *rejoin.Server) http.Handler {
		next := 0
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.Header.Get("Mcp-Session-Id") == "" || next < 0:
				srv.Serve(w, r)
			case next == 0: // initialized
				w.WriteHeader(http.StatusAccepted)
				next++
			case bodies[next-1] == "":
				w.WriteHeader(http.StatusNoContent)
				next++
			default:
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = w.Write([]byte(bodies[next-1]))
				next++
			}
		})
	}}
}

// session is the state of the client's session.
func session(c *rejointest.Client) rejoin.SessionInfo {
	for s := range c.Server().Sessions() {
		return s
	}
	return rejoin.SessionInfo{}
}

// streams are the session's streams, the standalone one first.
func streams(c *rejointest.Client) []rejoin.StreamInfo { return session(c).Streams }

// elapse lets virtual time pass, for a test or a tool in a bubble.
func elapse(d time.Duration) { <-time.After(d) }
