package middleware

import (
	"net/http"
	"strings"
	"testing"

	chimw "github.com/go-chi/chi/v5/middleware"
	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
)

// chi's Throttle counts requests that are being served: a stream counts, a call whose client was disconnected does not.
func TestThrottle(t *testing.T) {
	// Throttle has channels, which must be made in the bubble.
	m := func(s *rejoin.Server) http.Handler { return onChi(chimw.ThrottleBacklog(1, 1, limit))(s) }
	virtually(t, m, 0, func(t *testing.T, w *world) {
		a := w.send(http.MethodGet, nil)
		require.Equal(t, "primer", a.next())
		full := w.call("plain", "")
		require.Equal(t, http.StatusTooManyRequests, full.StatusCode)
		require.Equal(t, "Timed out while waiting for a pending request to complete.", full.whole())
		require.NoError(t, a.Body.Close())
		a.cut()
		call := w.call("close", "x")
		require.Equal(t, "primer 1 retry end", call.rest())
		require.Equal(t, `"done"`, shape(t, w.call("plain", "").whole()), "there is room while the other one runs")
		w.open("x")
		require.Equal(t, `primer 2 "done" end`, w.poll(call.last).rest())
	})
}

// With the CORS settings of docs/middleware.md a web page may send each kind of request, and read the headers that it needs.
func TestCORS(t *testing.T) {
	for _, r := range rows() {
		if r.origin == "" {
			continue
		}
		t.Run(r.router, func(t *testing.T) {
			virtually(t, r.mount, 0, func(t *testing.T, w *world) {
				for _, method := range corsMethods {
					a := w.send(http.MethodOptions, nil, "Origin", webPage, "Access-Control-Request-Method", method,
						"Access-Control-Request-Headers", strings.ToLower(strings.Join(corsAllow, ",")))
					require.Equal(t, http.StatusNoContent, w.status(a))
					require.Equal(t, webPage, a.Header.Get("Access-Control-Allow-Origin"))
					require.Contains(t, a.Header.Get("Access-Control-Allow-Methods"), method)
					for _, name := range corsAllow {
						require.Contains(t, strings.ToLower(a.Header.Get("Access-Control-Allow-Headers")), strings.ToLower(name))
					}
				}
				a := w.send(http.MethodDelete, nil, "Origin", webPage)
				require.Equal(t, http.StatusForbidden, a.StatusCode, "the server has a list of its own: Config.AllowedOrigins")
				require.Equal(t, webPage, a.Header.Get("Access-Control-Allow-Origin"), "and the page may read why")
				for _, name := range corsExpose {
					require.Contains(t, strings.ToLower(a.Header.Get("Access-Control-Expose-Headers")), strings.ToLower(name))
				}
				require.Contains(t, a.whole(), "Config.AllowedOrigins")
			})
		})
	}
}
