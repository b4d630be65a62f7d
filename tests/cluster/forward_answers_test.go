package cluster_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

const twoCalls = `[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}},{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"y"}}]`

// A request whose response has come is not answered once more when the owner is lost, though its events have ids.
func TestNoRequestOfAForwardedBatchIsAnsweredTwice(t *testing.T) {
	for what, lose := range losses {
		t.Run(what, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				w, owner, _ := newForwarded(t, options{})
				session := w.openAs(t, 0, kit.Batches)
				res := w.ask(t, 1, http.MethodPost, session, twoCalls, "Mcp-Protocol-Version", kit.Batches)
				first := owner.next()
				owner.next()
				elapse(2 * time.Second)
				first.Returns("done")
				elapse(time.Second)
				require.Equal(t, 1, strings.Count(res.Body.String(), `"id":`), res.Summary())
				lose(w)
				elapse(2 * lease)
				require.True(t, res.Ended)
				for _, id := range []string{`"id":1,`, `"id":2,`} {
					require.Equal(t, 1, strings.Count(res.Body.String(), id), "%s", res.Body.String())
				}
			})
		})
	}
}

// A client that accepts only streams gets the errors of a batch in one, as it gets that of a single request.
func TestTheErrorsOfABatchAreWhatItsClientAccepts(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, _, _ := newForwarded(t, options{})
		session := w.openAs(t, 0, kit.Batches)
		require.Equal(t, served, w.ping(t, 1, session))
		w.net.Refuse("0", true)
		w.net.Reset("0")
		for _, body := range []string{twoCalls, kit.Ping} {
			res := w.ask(t, 1, http.MethodPost, session, body, "Mcp-Protocol-Version", kit.Batches, "Accept", "text/event-stream")
			elapse(2 * lease)
			require.Equal(t, "text/event-stream", res.Head.Get("Content-Type"), res.Summary())
		}
	})
}

// A request with a deadline in the distant future is served as any other.
func TestADeadlineFarAwayIsForwarded(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		limit := func(next http.Handler) http.Handler { return http.TimeoutHandler(next, 365*24*time.Hour, "late") }
		w, owner, _ := newForwarded(t, options{front: limit, policy: rejoin.Policy{Mode: rejoin.ModeJSON}})
		call := w.CallTool("x", nil)
		elapse(2 * lease)
		require.Equal(t, "open", kit.Last(call))
		owner.next().Returns("done")
		require.Equal(t, `"done"`, string(call.Result()))
	})
}
