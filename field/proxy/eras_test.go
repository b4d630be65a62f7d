//go:build nginx

package proxy

import (
	"context"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/client"
	"github.com/rejoin-mcp/rejoin/core"
)

// modernUsers are the kinds of client of the modern era. Both take tasks.
var modernUsers = map[string]func(t *testing.T, n entrance, told func(string)) user{
	"2026-07-28, by hand": enterModern,
	"2026-07-28, package client": func(t *testing.T, n entrance, told func(string)) user {
		return connectIn(t, n, client.EraModern, told)
	},
}

// clients are the users of both eras. go-sdk's client prefers the modern era. It has no tasks there, so the server directs it to the older one.
// Package client, if it is not told which era to use, chooses the modern one because the server has tasks.
func clients() map[string]func(*testing.T, entrance, func(string)) user {
	all := maps.Clone(users)
	maps.Copy(all, modernUsers)
	all["2026-07-28, chosen by package client"] = func(t *testing.T, n entrance, told func(string)) user {
		return connectIn(t, n, client.EraAuto, told)
	}
	return all
}

func modern(name string) bool { return strings.HasPrefix(name, core.FirstModern) }

// One setting, for an unchanged server of each SDK: a call of ten seconds survives a proxy with a limit of two, for clients of both eras. A
// client of 2025-11-25 polls its stream, one of 2026-07-28 its task. All cases run in parallel, and take about twelve seconds of real
// time.
func TestOneSettingForBothEras(t *testing.T) {
	t.Parallel()
	for kind, newApp := range map[string]func(work) rejoin.App{"go-sdk": goSDK, "mcp-go": mcpGo} {
		for name, enter := range clients() {
			for _, f := range fronts() {
				if modernUsers[name] == nil && f.name != kept.name {
					continue // those that poll have tests of their own
				}
				t.Run(kind+", "+name+", "+f.name, func(t *testing.T) {
					t.Parallel()
					if !modern(name) {
						stats, _, err := callOnce(t, newApp, f, enter)
						require.NoError(t, err)
						require.GreaterOrEqual(t, stats.Closed, int64(2), "the client was let go")
						require.Zero(t, stats.TasksMade)
						return
					}
					// A call that is cut before it is a task is lost. The machine may be too slow for 0.8 s, so there are several tries.
					var stats rejoin.Stats
					cuts, err := 1, error(nil)
					for try := 0; try < 5 && cuts > 0; try++ {
						stats, cuts, err = callOnce(t, newApp, f, enter)
					}
					require.NoError(t, err)
					require.Zero(t, cuts)
					require.Equal(t, int64(1), stats.TasksMade)
					require.Zero(t, stats.Opened, "there is no session")
				})
			}
		}
	}
}

// callOnce calls the slow tool through nginx, and requires that a call that ends well tells all. It returns what the server has counted, and how
// many answers nginx has cut.
func callOnce(
	t *testing.T, newApp func(work) rejoin.App, f front, enter func(*testing.T, entrance, func(string)) user,
) (stats rejoin.Stats, cuts int, err error) {
	srv, address := serve(t, newApp(slow), rejoin.Config{Policy: rejoin.Policy{CloseAfter: 1200 * time.Millisecond}})
	n := run(t, address, f, settings{})
	heard := make(chan string, 10)
	got, err := enter(t, n, nil).call(deadline(t), func(message string) { heard <- message })
	if err == nil {
		require.Equal(t, "done", got)
		for last := ""; last != "part 4"; { // the official client delivers them in a goroutine of its own
			last = receive(t, heard)
		}
	}
	return srv.Stats(), n.cuts(t), err
}

// The test above can fail: without tasks the call of the modern client is lost, and the tool with it. (Without CloseAfter a client of 2025-11-25
// is cut off and resumes: TestACallOfTenSecondsBehindALimitOfTwo.)
func TestWithoutTasksAModernCallIsLost(t *testing.T) {
	t.Parallel()
	for kind, newApp := range map[string]func(work) rejoin.App{"go-sdk": goSDK, "mcp-go": mcpGo} {
		for name, enter := range modernUsers {
			t.Run(kind+", "+name, func(t *testing.T) {
				t.Parallel()
				ended := make(chan error, 1)
				srv, address := serve(t, newApp(watched(ended)), rejoin.Config{Policy: rejoin.Policy{TaskAfter: -1}})
				requireLost(t, run(t, address, kept, settings{}), enter)
				require.ErrorIs(t, receive(t, ended), context.Canceled, "a disconnect cancels")
				require.Zero(t, srv.Stats().TasksMade)
			})
		}
	}
}

// Behind the SDKs' own handlers, as they come, the call is lost in both eras.
func TestBehindTheSDKsOwnHandlersTheCallIsLost(t *testing.T) {
	t.Parallel()
	all := maps.Clone(modernUsers)
	all["package client"], all["go-sdk"] = users["package client"], connectGoSDK("2025-11-25")
	for kind, newHandler := range ownHandlers {
		for name, enter := range all {
			t.Run(kind+", "+name, func(t *testing.T) {
				t.Parallel()
				mux := http.NewServeMux()
				mux.Handle("/mcp", newHandler(slow, modern(name)))
				requireLost(t, run(t, listen(t, mux), kept, settings{}), enter)
			})
		}
	}
}

// requireLost requires that the call fails because nginx cuts its answer.
func requireLost(t *testing.T, n *nginx, enter func(*testing.T, entrance, func(string)) user) {
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
