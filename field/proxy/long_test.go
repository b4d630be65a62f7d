//go:build nginx

package proxy

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
)

// slow is a tool that works for ten seconds, sends nothing for longer than nginx waits, and does not know about connections.
func slow(ctx context.Context, say func(string) error) (string, error) {
	for i := range 4 {
		select {
		case <-time.After(2500 * time.Millisecond):
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
		if err := say(fmt.Sprint("part ", i+1)); err != nil {
			return "", err
		}
	}
	return "done", nil
}

// A call of ten seconds survives a proxy with a limit of two seconds, with CloseAfter and an unchanged tool: for each kind of app, client and
// nginx configuration, and nothing is lost. Without CloseAfter the same call is cut off and resumed. All cases run in parallel, and take ten
// seconds of real time together.
func TestACallOfTenSecondsBehindALimitOfTwo(t *testing.T) {
	t.Parallel()
	for kind, newApp := range apps {
		for name, enter := range users {
			policy := rejoin.Policy{Retry: 100 * time.Millisecond, RetryMax: 300 * time.Millisecond}
			t.Run(kind+", "+name+", without CloseAfter", func(t *testing.T) {
				t.Parallel()
				stats, cuts := callSlow(t, newApp, policy, kept, enter)
				require.Zero(t, stats.Closed)
				require.Positive(t, cuts)
				require.Positive(t, stats.Resumed)
			})
			closing := policy
			closing.CloseAfter = 1200 * time.Millisecond
			for _, f := range fronts() {
				t.Run(kind+", "+name+", "+f.name, func(t *testing.T) {
					t.Parallel()
					stats, cuts := callSlow(t, newApp, closing, f, enter)
					t.Logf("closed %d times, resumed %d times, cut by nginx %d times", stats.Closed, stats.Resumed, cuts)
					require.GreaterOrEqual(t, stats.Closed, int64(3), "the client was let go, again and again")
					require.GreaterOrEqual(t, stats.Resumed, int64(3))
				})
			}
		}
	}
}

// callSlow calls the slow tool through nginx, and returns what the server counted and how many cuts nginx logged.
func callSlow(
	t *testing.T, newApp func(work) rejoin.App, policy rejoin.Policy, f front, enter func(*testing.T, entrance, func(string)) user,
) (stats rejoin.Stats, cuts int) {
	srv, address := serve(t, newApp(slow), rejoin.Config{Policy: policy})
	n := run(t, address, f, settings{})
	u := enter(t, n, nil)
	heard := make(chan string, 10)
	got, err := u.call(deadline(t), func(message string) { heard <- message })
	require.NoError(t, err)
	require.Equal(t, "done", got)
	for i := range 4 { // the official client delivers them in a goroutine of its own
		require.Equal(t, fmt.Sprint("part ", i+1), receive(t, heard))
	}
	require.Empty(t, heard, "each once")
	return srv.Stats(), n.cuts(t)
}

func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatal("it did not come")
		panic("unreachable")
	}
}
