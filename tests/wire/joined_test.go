package wire_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// inOneLine returns a request in which a proxy has joined the lines of a field (RFC 9110, 5.3).
func inOneLine(r *http.Request, name string, values ...string) *http.Request {
	r.Header[http.CanonicalHeaderKey(name)] = []string{strings.Join(values, ", ")}
	return r
}

// inLines returns a request with a field in several lines.
func inLines(r *http.Request, name string, values ...string) *http.Request {
	r.Header[http.CanonicalHeaderKey(name)] = values
	return r
}

// Fields that may have only one value and came more than once: in two lines, or joined by a proxy.
var joinedRows = []row{
	{"equal values of the session, the version and the cursor count as one, in two lines, joined, or both", func(t *testing.T) {
		w := newWorld(t, rejointest.Config{})
		call, tool := w.call()
		require.NoError(t, tool.Progress(1, 0, ""))
		id, cursor := tool.Session().ID(), lastID(call)
		for name, value := range map[string]string{"Mcp-Session-Id": id, "Mcp-Protocol-Version": "2025-11-25"} {
			for _, lines := range [][]string{
				{value, value}, {value + ", " + value}, {value + "," + value}, {value + " ,\t" + value + ", " + value}, {value, value + ", " + value},
			} {
				w.answers(inLines(w.request(http.MethodPost, kit.Ping), name, lines...))
				w.accepts(inLines(w.request(http.MethodPost, aNotification), name, lines...), http.StatusAccepted)
				require.Equal(t, "primer@1", w.streams(inLines(w.get("Last-Event-ID", cursor), name, lines...)))
			}
		}
		for _, lines := range [][]string{{cursor, cursor}, {cursor + ", " + cursor}, {cursor + "," + cursor, cursor}} {
			require.Equal(t, "primer@1", w.streams(inLines(w.get(), "Last-Event-ID", lines...)))
		}
		w.refuses(inOneLine(w.request(http.MethodPost, kit.Initialize), "Mcp-Session-Id", id, id), `400 error(-32600,"mine")`, "initialized already")
		w.refuses(inOneLine(w.request(http.MethodPost, kit.Ping), "Mcp-Session-Id", "nobody", "nobody"), "404 error(-32001,null)", "")
		w.refuses(inOneLine(w.request(http.MethodPost, kit.Ping), "Mcp-Protocol-Version", "draft", "draft"), `400 error(-32600,"mine")`, "unknown version")
		w.refuses(inOneLine(w.get(), "Last-Event-ID", "garbage", "garbage"), "400 error(-32600,null) unknown", "")
		w.lives()
		w.accepts204(inOneLine(w.request(http.MethodDelete, ""), "Mcp-Session-Id", id, id))
	}},
	{"different values of the session or the version are refused with 400 on every verb, in two lines or joined", func(t *testing.T) {
		w := newWorld(t, rejointest.Config{Version: kit.Batches})
		_, tool := w.call()
		id := tool.Session().ID()
		for _, v := range everyVerb {
			want := "400 error(-32600," + v.id + ")"
			for _, other := range []string{"other", "", strings.ToLower(id)} {
				for _, join := range []func(*http.Request, string, ...string) *http.Request{inLines, inOneLine} {
					w.refuses(join(w.request(v.method, v.body), "Mcp-Session-Id", id, other), want, "two different values of Mcp-Session-Id")
					w.refuses(join(w.request(v.method, v.body), "Mcp-Session-Id", other, id), want, "two different values of Mcp-Session-Id")
					w.refuses(join(w.request(v.method, v.body), "Mcp-Session-Id", id, id, other), want, "two different values of Mcp-Session-Id")
				}
			}
			for _, other := range []string{"2025-06-18", "draft", "", "2026-07-28"} {
				for _, join := range []func(*http.Request, string, ...string) *http.Request{inLines, inOneLine} {
					w.refuses(join(w.request(v.method, v.body), "Mcp-Protocol-Version", "2025-11-25", other), want, "two different values of Mcp-Protocol-Version")
					w.refuses(join(w.request(v.method, v.body), "Mcp-Protocol-Version", other, "2025-11-25"), want, "two different values of Mcp-Protocol-Version")
				}
			}
		}
		w.lives()
	}},
	{"different cursors are refused with 400, in two lines or joined; on a POST they mean nothing", func(t *testing.T) {
		w := newWorld(t, rejointest.Config{})
		call, tool := w.call()
		require.NoError(t, tool.Progress(1, 0, ""))
		cursor := lastID(call)
		for _, other := range []string{call.IDs()[0], "garbage", ""} {
			for _, join := range []func(*http.Request, string, ...string) *http.Request{inLines, inOneLine} {
				w.refuses(join(w.get(), "Last-Event-ID", cursor, other), "400 error(-32600,null)", "two different values of Last-Event-ID")
				w.refuses(join(w.get(), "Last-Event-ID", other, cursor), "400 error(-32600,null)", "two different values of Last-Event-ID")
				w.answers(join(w.request(http.MethodPost, kit.Ping), "Last-Event-ID", cursor, other))
			}
		}
		require.Equal(t, 1, call.Open())
		w.lives()
	}},
	{"a modern handler sees one version where it came joined, and different ones do not get there", func(t *testing.T) {
		var seen []string
		app := kit.BothEras{Fake: &kit.Fake{}, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			seen = r.Header["Mcp-Protocol-Version"]
		})}
		s := kit.NewServer(t, app, rejoin.Config{Eras: rejoin.EraBoth})
		for _, join := range []func(*http.Request, string, ...string) *http.Request{inLines, inOneLine} {
			seen = nil
			r := join(kit.Request(t, http.MethodPost, kit.ModernPing), "Mcp-Protocol-Version", "2026-07-28", "2026-07-28")
			require.Equal(t, "200 ended", kit.Serve(s, r).Summary())
			require.Equal(t, []string{"2026-07-28"}, seen)
			for _, other := range []string{"2027-01-01", "2025-11-25", "draft", ""} {
				r := join(kit.Request(t, http.MethodPost, kit.ModernPing), "Mcp-Protocol-Version", "2026-07-28", other)
				res := kit.Serve(s, r)
				require.Equal(t, `400 error(-32600,"mine") ended`, res.Summary())
				requireError(t, res.Body.String(), "two different values of Mcp-Protocol-Version")
			}
		}
	}},
}
