//go:build nginx

package proxy

import (
	"context"
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
)

// clients are the users of both eras: two poll, one takes tasks. go-sdk's client prefers the modern era. It has no tasks there, so the server
// directs it to the older one.
func clients() map[string]func(*testing.T, *nginx, func(string)) user {
	all := maps.Clone(users)
	all[modern] = enterModern
	return all
}

const modern = "2026-07-28 with tasks"

// One setting, for an unchanged server of each SDK: a call of ten seconds survives a proxy with a limit of two, for clients of both eras. A
// client of 2025-11-25 polls its stream, one of 2026-07-28 its task. All cases run in parallel, and take about twelve seconds of real
// time.
func TestOneSettingForBothEras(t *testing.T) {
	t.Parallel()
	for kind, newApp := range map[string]func(work) rejoin.App{"go-sdk": goSDK, "mcp-go": mcpGo} {
		for name, enter := range clients() {
			for _, f := range fronts() {
				t.Run(kind+", "+name+", "+f.name, func(t *testing.T) {
					t.Parallel()
					srv, address := serve(t, newApp(slow), rejoin.Config{Policy: rejoin.Policy{CloseAfter: 1200 * time.Millisecond}})
					n := run(t, address, f, settings{})
					u := enter(t, n, nil)
					last := ""
					heard := make(chan string, 10)
					got, err := u.call(deadline(t), func(message string) { heard <- message })
					require.NoError(t, err)
					require.Equal(t, "done", got)
					for last != "part 4" { // the official client delivers them in a goroutine of its own
						last = receive(t, heard)
					}
					stats := srv.Stats()
					if name == modern {
						require.Equal(t, int64(1), stats.TasksMade)
						require.Zero(t, stats.Opened, "there is no session")
						require.Zero(t, n.cuts(t))
						return
					}
					require.GreaterOrEqual(t, stats.Closed, int64(2), "the client was let go")
					require.Zero(t, stats.TasksMade)
				})
			}
		}
	}
}

// The test above can fail: without tasks the call of the modern client is lost, and the tool with it. (Without CloseAfter a client of 2025-11-25
// is cut off and resumes: TestACallOfTenSecondsBehindALimitOfTwo.)
func TestWithoutTasksAModernCallIsLost(t *testing.T) {
	t.Parallel()
	for kind, newApp := range map[string]func(work) rejoin.App{"go-sdk": goSDK, "mcp-go": mcpGo} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			ended := make(chan error, 1)
			srv, address := serve(t, newApp(watched(ended)), rejoin.Config{Policy: rejoin.Policy{TaskAfter: -1}})
			n := run(t, address, kept, settings{})
			requireLost(t, n, enterModern)
			require.ErrorIs(t, receive(t, ended), context.Canceled, "a disconnect cancels")
			require.Zero(t, srv.Stats().TasksMade)
		})
	}
}

// Behind the SDKs' own handlers, as they come, the call is lost in both eras.
func TestBehindTheSDKsOwnHandlersTheCallIsLost(t *testing.T) {
	t.Parallel()
	all := clients()
	all["go-sdk"] = connectGoSDK("2025-11-25")
	for kind, newHandler := range ownHandlers {
		for name, enter := range all {
			t.Run(kind+", "+name, func(t *testing.T) {
				t.Parallel()
				mux := http.NewServeMux()
				mux.Handle("/mcp", newHandler(slow, name == modern))
				requireLost(t, run(t, listen(t, mux), kept, settings{}), enter)
			})
		}
	}
}

// requireLost requires that the call fails because nginx cuts its answer.
func requireLost(t *testing.T, n *nginx, enter func(*testing.T, *nginx, func(string)) user) {
	t.Helper()
	got, err := enter(t, n, nil).call(deadline(t), func(string) {})
	require.Error(t, err, got)
	require.Positive(t, n.cuts(t))
	t.Logf("the client reports: %v", err)
}

// watched is the slow tool that tells how it has ended.
func watched(ended chan<- error) work {
	return func(ctx context.Context, say func(string) error) (string, error) {
		text, err := slow(ctx, say)
		ended <- err
		return text, err
	}
}
