//go:build nginx

package proxy

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/client"
)

// Without CloseAfter a proxy cuts off a call that sends nothing for long. Its client still gets the rest, since it got an event id at the
// beginning.
func TestACallThatWasCutIsResumed(t *testing.T) {
	t.Parallel()
	for kind, newApp := range apps {
		for _, f := range fronts() {
			t.Run(kind+", "+f.name, func(t *testing.T) {
				t.Parallel()
				cut, back := make(chan struct{}), make(chan struct{})
				srv, address := serve(t, newApp(func(ctx context.Context, say func(string) error) (string, error) {
					if err := say("before"); err != nil {
						return "", err
					}
					if err := hold(ctx, cut); err != nil {
						return "", err
					}
					if err := say("meanwhile"); err != nil {
						return "", err
					}
					return "done", hold(ctx, back)
				}), rejoin.Config{Policy: rejoin.Policy{Retry: 10 * time.Millisecond}})
				n := run(t, address, f, settings{})
				u := connect(t, n, nil)
				var heard []string
				ended := make(chan error, 1)
				go func() {
					_, err := u.call(t.Context(), func(message string) { heard = append(heard, message) })
					ended <- err
				}()
				require.NoError(t, u.wire.wait(deadline(t), 1, broken), "nginx cuts the answer off")
				close(cut)
				require.NoError(t, u.wire.wait(deadline(t), 1, polls("2")))
				close(back)
				require.NoError(t, receive(t, ended))
				require.Equal(t, []string{"before", "meanwhile"}, heard)
				require.Positive(t, n.cuts(t))
				require.Zero(t, srv.Stats().Closed)
				require.Positive(t, srv.Stats().Resumed)
				for _, end := range u.ends() {
					t.Logf("seen by the client: %v", end.Err)
				}
			})
		}
	}
}

func (u packageClient) ends() []client.TraceEvent {
	all, _ := u.wire.list(broken)
	return all
}

// Without a stream there is nothing to resume: in mode JSON a call longer than the proxy's limit gets 504, and its client cannot know what
// became of it.
func TestAPlainAnswerIsLostBehindALimit(t *testing.T) {
	t.Parallel()
	for _, f := range fronts() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			lost := make(chan struct{})
			_, address := serve(t, own(func(ctx context.Context, _ func(string) error) (string, error) {
				return "done", hold(ctx, lost)
			}), rejoin.Config{Policy: rejoin.Policy{Mode: rejoin.ModeJSON}})
			n := run(t, address, f, settings{})
			answer := post(t, n, open(t, n), request)
			close(lost)
			require.Equal(t, http.StatusGatewayTimeout, answer.StatusCode)
		})
	}
}
