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

// slow is a tool that works for ten seconds, is silent for longer than nginx waits, and has never heard of connections.
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

// A call of ten seconds survives a proxy that waits for two, with CloseAfter and a tool that was not changed: of each kind of server, in
// each kind of client, behind each kind of front, and nothing is lost. Without CloseAfter the same call is cut off, and got back. This test
// takes ten real seconds, once: all run at a time.
func TestACallOfTenSecondsBehindALimitOfTwo(t *testing.T) {
	t.Parallel()
	for kind, house := range houses {
		for name, enter := range users {
			policy := rejoin.Policy{Retry: 100 * time.Millisecond, RetryMax: 300 * time.Millisecond}
			t.Run(kind+", "+name+", without CloseAfter", func(t *testing.T) {
				t.Parallel()
				stats, cuts := callSlow(t, house, policy, kept, enter)
				require.Zero(t, stats.Closed)
				require.Positive(t, cuts)
				require.Positive(t, stats.Resumed)
			})
			closing := policy
			closing.CloseAfter = 1200 * time.Millisecond
			for _, f := range fronts() {
				t.Run(kind+", "+name+", "+f.name, func(t *testing.T) {
					t.Parallel()
					stats, cuts := callSlow(t, house, closing, f, enter)
					t.Logf("closed %d times, resumed %d times, cut by nginx %d times", stats.Closed, stats.Resumed, cuts)
					require.GreaterOrEqual(t, stats.Closed, int64(3), "the client was let go, again and again")
					require.GreaterOrEqual(t, stats.Resumed, int64(3))
				})
			}
		}
	}
}

// callSlow calls the slow tool through nginx, and says what the server and nginx counted.
func callSlow(
	t *testing.T, house func(work) rejoin.App, policy rejoin.Policy, f front, enter func(*testing.T, *nginx, func(string)) user,
) (stats rejoin.Stats, cuts int) {
	srv, address := serve(t, house(slow), rejoin.Config{Policy: policy})
	n := run(t, address, f, settings{})
	u := enter(t, n, nil)
	heard := make(chan string, 10)
	got, err := u.call(deadline(t), func(message string) { heard <- message })
	require.NoError(t, err)
	require.Equal(t, "done", got)
	for i := range 4 { // the official client hands them to a goroutine of its own
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
