package wire_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// teapot is an app whose modern handler answers with a status that nothing else has.
func teapot() kit.BothEras {
	return kit.BothEras{Fake: &kit.Fake{}, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })}
}

// offering is a client of a server that serves both eras.
func offering(t *testing.T, cfg rejoin.Config) *rowWorld {
	t.Helper()
	counted := &countedOpens{App: teapot()}
	cfg.Eras = rejoin.EraBoth
	return &rowWorld{t: t, c: rejointest.New(t, counted, rejointest.Config{Server: cfg}), opened: &counted.n, seen: map[string]bool{}}
}

var saysAll = `"supported":["2026-07-28","` + strings.ReplaceAll(unmodern, ", ", `","`) + `"]`

// Servers that offer the modern era.
var eraRows = []row{
	{"a modern request goes to the app's modern handler, by its header or its body, and leaves nothing", func(t *testing.T) {
		w := offering(t, rejoin.Config{})
		for _, r := range []*http.Request{
			w.request(http.MethodPost, kit.ModernPing), w.request(http.MethodPost, kit.ModernPing, "Mcp-Session-Id", ""), w.request(http.MethodPost, kit.Ping, kit.ModernHeader...),
			w.request(http.MethodPost, kit.Initialize, kit.ModernHeader...), w.request(http.MethodPost, kit.Ping, "Mcp-Protocol-Version", "2027-01-01"),
			w.request(http.MethodPost, kit.ModernPing, "Accept", "text/html"), // the handler decides about Accept
		} {
			w.accepts(r, http.StatusTeapot)
		}
		w.answers(w.request(http.MethodPost, kit.Ping))
	}},
	{"a modern request has to pass the same door", func(t *testing.T) {
		w := offering(t, rejoin.Config{MaxBodyBytes: 300})
		w.refuses(w.request(http.MethodPost, kit.ModernPing, "Origin", "https://evil.example"), "403 error(-32600,null)", "Origin")
		w.refuses(w.request(http.MethodPost, kit.ModernPing, "Content-Type", "text/plain"), `415 error(-32600,"mine")`, "")
		w.refuses(w.request(http.MethodPost, kit.ModernPing+fmt.Sprintf("%300s", "")), `413 error(-32600,"mine")`, "Config.MaxBodyBytes")
		w.refuses(w.request(http.MethodPost, kit.ModernPing[:len(kit.ModernPing)-1], kit.ModernHeader...), `400 error(-32700,"mine")`, "")
	}},
	{"there is no modern GET or DELETE: 405 with Allow", func(t *testing.T) {
		w := offering(t, rejoin.Config{})
		for _, method := range []string{http.MethodGet, http.MethodDelete} {
			w.refuses(w.request(method, "", kit.ModernHeader...), "405 error(-32600,null)", "in this version", "Allow", "POST")
			w.refuses(w.request(method, "", append([]string{"Mcp-Session-Id", ""}, kit.ModernHeader...)...), "405 error(-32600,null)", "in this version", "Allow", "POST")
		}
		require.Equal(t, "primer@0", w.streams(w.get()), "of the legacy era there is")
	}},
	{"an unknown version is refused on every verb, with all versions that are served", func(t *testing.T) {
		w := offering(t, rejoin.Config{})
		for _, v := range everyVerb {
			for _, version := range []string{"draft", "2025-01-01", "2026-01-01", "1.0"} {
				require.Contains(t, w.refuses(w.request(v.method, v.body, "Mcp-Protocol-Version", version), "400 error(-32600,"+v.id+")", "unknown version"), saysAll)
			}
		}
	}},
	{"an unknown version in _meta is refused as the modern era refuses it, with the id, whatever the header says", func(t *testing.T) {
		w := offering(t, rejoin.Config{})
		for _, version := range []string{"2025-01-01", "2026-01-01", "1", "", "draft"} {
			body := strings.Replace(kit.ModernPing, "2026-07-28", version, 1)
			for _, header := range []string{version, "2025-11-25", ""} {
				says := w.refuses(w.request(http.MethodPost, body, "Mcp-Protocol-Version", header), `400 error(-32022,"mine")`, "unknown protocol version")
				require.Contains(t, says, saysAll)
				require.Contains(t, says, `"requested":"`+version+`"`)
			}
		}
		// The header counts before the body.
		says := w.refuses(w.request(http.MethodPost, kit.ModernPing, "Mcp-Protocol-Version", `dra"ft`), `400 error(-32022,"mine")`, "unknown protocol version")
		require.Contains(t, says, `"requested":"dra\"ft"`)
		w.refuses(w.request(http.MethodPost, strings.Replace(kit.ModernPing, `"2026-07-28"`, "17", 1)), `400 error(-32022,"mine")`, "unknown protocol version")
		w.refuses(w.request(http.MethodPost, strings.Replace(kit.ModernNotification, "2026-07-28", "x", 1)), `400 error(-32022,null)`, "unknown protocol version")
		w.accepts(w.request(http.MethodPost, kit.ModernPing, "Mcp-Protocol-Version", "2027-01-01"), http.StatusTeapot) // the handler may know this version
	}},
	{"a batch is no modern request: it is refused by its header, or by what is in it", func(t *testing.T) {
		w := offering(t, rejoin.Config{})
		for _, id := range []string{"", "nobody"} {
			w.refuses(w.request(http.MethodPost, "["+kit.ModernPing+"]", "Mcp-Session-Id", id), "400 error(-32600,null)", "2025-03-26")
			w.refuses(w.request(http.MethodPost, "["+kit.Ping+","+kit.ModernNotification+"]", "Mcp-Session-Id", id), "400 error(-32600,null)", "2025-03-26")
			w.refuses(w.request(http.MethodPost, "["+kit.Ping+"]", append([]string{"Mcp-Session-Id", id}, kit.ModernHeader...)...), "400 error(-32600,null)", "2025-03-26")
		}
	}},
	{"while draining a modern request is refused with 503 and Retry-After", func(t *testing.T) {
		w := offering(t, rejoin.Config{})
		kit.Drain(t, w.c.Server(), 0)
		w.refuses(w.request(http.MethodPost, kit.ModernPing), `503 error(-32000,"mine")`, "shutting down", retryLater...)
	}},
	{"where only the modern era is served, nothing of the other is", func(t *testing.T) {
		s := kit.NewServer(t, teapot(), rejoin.Config{Eras: rejoin.EraModern})
		require.Equal(t, "418 ended", kit.Serve(s, kit.Request(t, http.MethodPost, kit.ModernPing)).Summary())
		refused := int64(0)
		for _, version := range []string{"", "2025-11-25", "draft", "2026-07-28"} {
			for _, v := range append(everyVerb, rowVerb{"another verb", http.MethodPut, "", ""}) {
				if v.method == http.MethodPost && version == "2026-07-28" {
					continue
				}
				res := kit.Serve(s, kit.Request(t, v.method, v.body, "Mcp-Protocol-Version", version, "Mcp-Session-Id", "x"))
				refused++
				if v.method == http.MethodPost {
					require.Equal(t, "400 error(-32600,"+v.id+") ended", res.Summary(), "%s, %s", version, v.name)
					kit.RequireHead(t, res.Head, "Content-Type", "application/json")
					requireError(t, res.Body.String(), "Config.Eras")
					continue
				}
				require.Equal(t, "405 error(-32600,null) ended", res.Summary(), "%s, %s", version, v.name)
				kit.RequireHead(t, res.Head, "Content-Type", "application/json", "Allow", "POST")
				requireError(t, res.Body.String(), "POST")
			}
		}
		require.Equal(t, rejoin.Stats{Refused: refused}, s.Stats())
	}},
}
