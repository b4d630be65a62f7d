//go:build nginx

package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
)

// With KeepAlive below two seconds the standalone stream is not cut by a proxy that cuts connections which are idle for two seconds. The
// test takes four seconds of real time. The machine may be too slow for a second, so there are several tries.
func TestKeepAliveKeepsAnIdleStreamOpen(t *testing.T) {
	t.Parallel()
	for _, f := range fronts() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			_, address := serve(t, own(nil), rejoin.Config{KeepAlive: time.Second})
			n := run(t, address, f, settings{})
			session := open(t, n)
			comments := 0
			for try := 0; try < 5 && comments < 4; try++ {
				answer := do(t, n, message(t, n, http.MethodGet, session, ""))
				require.Equal(t, http.StatusOK, answer.StatusCode)
				comments = 0
				for line := range lines(t, answer.Body) {
					if !strings.HasPrefix(line, ":") {
						continue
					}
					if comments++; comments == 4 {
						break
					}
				}
				_ = answer.Body.Close()
			}
			require.Equal(t, 4, comments, "one connection was open for twice the limit")
		})
	}
}

// With KeepAlive above the limit the standalone stream is cut again and again, and nothing is lost: the client resumes it, gets what was
// sent meanwhile, and keeps its session.
func TestAnIdleStreamThatIsCutIsResumed(t *testing.T) {
	t.Parallel()
	for _, f := range fronts() {
		for name, enter := range users {
			t.Run(f.name+", "+name, func(t *testing.T) {
				t.Parallel()
				const times = 2
				sessions := make(chan *rejoin.Session, 1)
				srv, address := serve(t, own(func(ctx context.Context, _ func(string) error) (string, error) {
					sessions <- rejoin.HandleFromContext(ctx).Session()
					return "done", nil
				}), rejoin.Config{Policy: rejoin.Policy{Retry: 10 * time.Millisecond}})
				n := run(t, address, f, settings{})
				told := make(chan string, 2*times)
				u := enter(t, n, func(message string) { told <- message })
				_, err := u.call(deadline(t), func(string) {})
				require.NoError(t, err)
				s := receive(t, sessions)
				for i := range times {
					n.waitForCuts(t, i+1)
					news := fmt.Sprint("news ", i+1)
					require.NoError(t, s.Notify(t.Context(), "notifications/message",
						json.RawMessage(`{"level":"info","data":"`+news+`"}`)))
					require.Equal(t, news, receive(t, told))
				}
				_, err = u.call(deadline(t), func(string) {})
				require.NoError(t, err)
				require.Empty(t, told, "each once")
				require.GreaterOrEqual(t, srv.Stats().Resumed, int64(times))
				require.Equal(t, int64(1), srv.Stats().Opened)
			})
		}
	}
}

func (n *nginx) waitForCuts(t *testing.T, count int) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(patience); n.cuts(t) < count; {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatal("nginx cuts nothing off")
		}
	}
}
