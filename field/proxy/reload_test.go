//go:build nginx

package proxy

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/client"
)

// A proxy that is reloaded during a call finishes its connections: by default without a limit, and the call notices nothing. With
// worker_shutdown_timeout it cuts the call off, and the client resumes it through the new workers.
func TestAProxyIsReloadedInTheMiddleOfACall(t *testing.T) {
	t.Parallel()
	for _, f := range fronts() {
		for name, patient := range map[string]bool{"patient": true, "impatient": false} {
			t.Run(f.name+", "+name, func(t *testing.T) {
				t.Parallel()
				begun, reloaded := make(chan struct{}), make(chan struct{})
				srv, address := serve(t, own(func(ctx context.Context, say func(string) error) (string, error) {
					if err := say("before"); err != nil {
						return "", err
					}
					close(begun)
					if err := hold(ctx, reloaded); err != nil {
						return "", err
					}
					return "done", say("after")
				}), rejoin.Config{Policy: rejoin.Policy{Retry: 10 * time.Millisecond}})
				s := settings{limit: patience, server: "add_header Generation first always;"}
				if !patient {
					s.main = "worker_shutdown_timeout 100ms;"
				}
				n := run(t, address, f, s)
				u := connect(t, n, nil)
				var heard []string
				ended := make(chan error, 1)
				go func() {
					_, err := u.call(t.Context(), func(message string) { heard = append(heard, message) })
					ended <- err
				}()
				receive(t, begun)
				require.NoError(t, u.wire.wait(deadline(t), 1, func(e client.TraceEvent) bool { return e.Method == "notifications/progress" }))
				n.reload(t, "first", "second")
				if !patient {
					require.NoError(t, u.wire.wait(deadline(t), 1, polls("2")))
				}
				close(reloaded)
				require.NoError(t, receive(t, ended))
				require.Equal(t, []string{"before", "after"}, heard)
				require.Equal(t, patient, srv.Stats().Resumed == 0)
			})
		}
	}
}
