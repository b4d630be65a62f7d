package rejoin_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// teapot is an app whose modern handler can be told from everything else.
func teapot() bothEras {
	return bothEras{&fake{}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })}
}

// offering is a client of a server that serves both eras.
func offering(t *testing.T, cfg rejoin.Config) *rowWorld {
	t.Helper()
	counted := &countedOpens{App: teapot()}
	cfg.Eras = rejoin.Both
	return &rowWorld{t: t, c: rejointest.New(t, counted, rejointest.Config{Server: cfg}), opened: &counted.n, seen: map[string]bool{}}
}

var modernHeader = []string{"Mcp-Protocol-Version", "2026-07-28"}

// Where the modern era is offered.
var eraRows = []row{
	{"a modern request goes to the app's modern handler, by its header or its body, and leaves nothing", func(t *testing.T) {
		w := offering(t, rejoin.Config{})
		for _, r := range []*http.Request{
			w.request(http.MethodPost, modernPing), w.request(http.MethodPost, modernPing, "Mcp-Session-Id", ""), w.request(http.MethodPost, ping, modernHeader...),
			w.request(http.MethodPost, initialize, modernHeader...), w.request(http.MethodPost, ping, "Mcp-Protocol-Version", "2027-01-01"),
			w.request(http.MethodPost, modernPing, "Accept", "text/html"), // its answer is the handler's business
		} {
			w.accepts(r, http.StatusTeapot)
		}
		w.answers(w.request(http.MethodPost, ping))
	}},
	{"a modern request has to pass the same door", func(t *testing.T) {
		w := offering(t, rejoin.Config{MaxBodyBytes: 300})
		w.refuses(w.request(http.MethodPost, modernPing, "Origin", "https://evil.example"), "403 error(-32600,null)", "Origin")
		w.refuses(w.request(http.MethodPost, modernPing, "Content-Type", "text/plain"), `415 error(-32600,"mine")`, "")
		w.refuses(w.request(http.MethodPost, modernPing+fmt.Sprintf("%300s", "")), `413 error(-32600,"mine")`, "Config.MaxBodyBytes")
		w.refuses(w.request(http.MethodPost, modernPing[:len(modernPing)-1], modernHeader...), `400 error(-32700,"mine")`, "")
	}},
	{"there is no modern GET or DELETE: 405 with Allow", func(t *testing.T) {
		w := offering(t, rejoin.Config{})
		for _, method := range []string{http.MethodGet, http.MethodDelete} {
			w.refuses(w.request(method, "", modernHeader...), "405 error(-32600,null)", "in this version", "Allow", "POST")
			w.refuses(w.request(method, "", append([]string{"Mcp-Session-Id", ""}, modernHeader...)...), "405 error(-32600,null)", "in this version", "Allow", "POST")
		}
		require.Equal(t, "primer@0", w.streams(w.get()), "of the legacy era there is")
	}},
	{"an unknown version is refused as ever", func(t *testing.T) {
		w := offering(t, rejoin.Config{})
		for _, v := range everyVerb {
			require.Contains(t, w.refuses(w.request(v.method, v.body, "Mcp-Protocol-Version", "draft"), "400 error(-32600,"+v.id+")", ""), saysSupported)
		}
	}},
	{"while draining a modern request is refused with 503 and Retry-After", func(t *testing.T) {
		w := offering(t, rejoin.Config{})
		drains(t, w.c.Server(), 0)
		w.refuses(w.request(http.MethodPost, modernPing), `503 error(-32000,"mine")`, "shutting down", retryLater...)
	}},
	{"where only the modern era is served, nothing of the other is", func(t *testing.T) {
		s := newServer(t, teapot(), rejoin.Config{Eras: rejoin.Modern})
		require.Equal(t, "418 ended", serve(s, request(t, http.MethodPost, modernPing)).story())
		refused := int64(0)
		for _, version := range []string{"", "2025-11-25", "draft", "2026-07-28"} {
			for _, v := range append(everyVerb, rowVerb{"another verb", http.MethodPut, "", ""}) {
				if v.method == http.MethodPost && version == "2026-07-28" {
					continue
				}
				res := serve(s, request(t, v.method, v.body, "Mcp-Protocol-Version", version, "Mcp-Session-Id", "x"))
				refused++
				if v.method == http.MethodPost {
					require.Equal(t, "400 error(-32600,"+v.id+") ended", res.story(), "%s, %s", version, v.name)
					requireHead(t, res.header, "Content-Type", "application/json")
					requireError(t, res.body.String(), "Config.Eras")
					continue
				}
				require.Equal(t, "405 error(-32600,null) ended", res.story(), "%s, %s", version, v.name)
				requireHead(t, res.header, "Content-Type", "application/json", "Allow", "POST")
				requireError(t, res.body.String(), "POST")
			}
		}
		require.Equal(t, rejoin.Stats{Refused: refused}, s.Stats())
	}},
}
