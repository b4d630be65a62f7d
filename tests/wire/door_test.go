package wire_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// unreadableBody is a body that must not be read.
type unreadableBody struct{ t *testing.T }

func (b unreadableBody) Read([]byte) (int, error) {
	b.t.Error("the body was read")
	return 0, io.EOF
}

// breakingBody is the body of a client that has disconnected.
type breakingBody struct{}

func (breakingBody) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

const unmodern = `2025-11-25, 2025-06-18, 2025-03-26, 2024-11-05`

var saysSupported = `"data":{"supported":["` + strings.ReplaceAll(unmodern, ", ", `","`) + `"]}`

// everyVerb has a request of each kind, initialize included, with the id of its refusal.
var everyVerb = slices.Clip(append([]rowVerb{{"initialize", http.MethodPost, kit.Initialize, `"mine"`}}, sessionVerbs...))

// The door: what is checked before the request itself is looked at. The whole body is read before a refusal, so that the refusal can have the request's
// id. A foreign Host or Origin is refused without reading, and learns nothing.
var doorRows = []row{
	{"a foreign Origin is refused with 403 on every verb, unread", func(t *testing.T) {
		w := newWorld(t, rejointest.Config{})
		for _, v := range append(everyVerb, rowVerb{"another verb", http.MethodPut, "", "null"}) {
			for _, origin := range []string{"https://evil.example", "null", "http://rejoin.test"} {
				w.refuses(w.request(v.method, v.body, "Origin", origin), "403 error(-32600,null)", "Config.AllowedOrigins")
			}
		}
		r := w.request(http.MethodPost, kit.Ping, "Origin", "https://evil.example")
		r.Body = io.NopCloser(unreadableBody{t})
		require.Equal(t, "403 error(-32600,null) ended", kit.Serve(w.c.Server(), r).Summary())
		w.lives()
	}},
	{"a foreign Host on a loopback listener is refused with 403 on every verb, unread", func(t *testing.T) {
		s := kit.NewServer(t, &kit.Fake{}, rejoin.Config{})
		for _, v := range everyVerb {
			r := kit.Request(t, v.method, "")
			r.Body, r.Host = io.NopCloser(unreadableBody{t}), "evil.example"
			local := context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
			res := kit.Serve(s, r.WithContext(local))
			require.Equal(t, "403 error(-32600,null) ended", res.Summary(), v.name)
			kit.RequireHead(t, res.Head, "Content-Type", "application/json")
			requireError(t, res.Body.String(), "Config.AllowedHosts")
		}
		require.Equal(t, rejoin.Stats{Refused: int64(len(everyVerb))}, s.Stats())
	}},
	{"a body over MaxBodyBytes is refused with 413, and with the id if that was read", func(t *testing.T) {
		w := newWorld(t, rejointest.Config{Server: rejoin.Config{MaxBodyBytes: 2048}})
		for _, body := range []string{kit.Ping, kit.Initialize} {
			pad := strings.Repeat(" ", 2048-len(body))
			w.refuses(w.request(http.MethodPost, body+pad+" "), `413 error(-32600,"mine")`, "Config.MaxBodyBytes")
			w.refuses(w.request(http.MethodPost, pad+" "+body), `413 error(-32600,"mine")`, "Config.MaxBodyBytes") // everything but the last brace
			w.refuses(w.request(http.MethodPost, strings.Repeat(" ", 2048)+body), "413 error(-32600,null)", "Config.MaxBodyBytes")
		}
		w.refuses(w.request(http.MethodPost, "["+kit.Ping+strings.Repeat(" ", 2048)+"]"), "413 error(-32600,null)", "Config.MaxBodyBytes")
		w.refuses(w.request(http.MethodPost, aNotification+strings.Repeat(" ", 2048)), "413 error(-32600,null)", "Config.MaxBodyBytes")
		w.refuses(w.request(http.MethodPost, kit.Ping+strings.Repeat(" ", 1<<20)), `413 error(-32600,"mine")`, "Config.MaxBodyBytes")
		w.answers(w.request(http.MethodPost, kit.Ping+strings.Repeat(" ", 2048-len(kit.Ping))))
		w.lives()
	}},
	{"a body that cannot be read to its end, and an id that is too long, are refused with 400", func(t *testing.T) {
		w := newWorld(t, rejointest.Config{})
		_, tool := w.call()
		for part, id := range map[string]string{kit.Ping[:10]: "null", kit.Ping[:len(kit.Ping)-1]: `"mine"`} {
			for _, length := range []int64{-1, int64(len(kit.Ping))} {
				r := inSessionOf(tool, w.request(http.MethodPost, ""))
				r.Body, r.ContentLength = io.NopCloser(io.MultiReader(strings.NewReader(part), breakingBody{})), length
				res := kit.Serve(w.c.Server(), r)
				require.Equal(t, "400 error(-32600,"+id+") ended", res.Summary())
				kit.RequireHead(t, res.Head, "Content-Type", "application/json")
				requireError(t, res.Body.String(), "could not be read")
			}
		}
		id := `"` + strings.Repeat("x", 1023) + `"`
		w.refuses(w.request(http.MethodPost, kit.CallBody(id, "{}")), "400 error(-32600,"+id+")", "longer than 1024 bytes")
		w.lives()
	}},
	{"another type than application/json is refused with 415, with the id; parameters and case are allowed", func(t *testing.T) {
		w := newWorld(t, rejointest.Config{})
		for _, v := range everyVerb {
			if v.method != http.MethodPost {
				continue
			}
			for _, no := range []string{"", "text/plain", "application/jsonp", "application/x-www-form-urlencoded", "text/json", "application/*", ";", "charset=utf-8"} {
				w.refuses(w.request(v.method, v.body, "Content-Type", no), "415 error(-32600,"+v.id+")", "application/json")
			}
		}
		for _, yes := range []string{"application/json", "Application/JSON", "application/json; charset=utf-8", "application/json ;x=y;z"} {
			w.answers(w.request(http.MethodPost, kit.Ping, "Content-Type", yes))
		}
		w.lives()
	}},
	{"a body that was encoded is refused with 415", func(t *testing.T) {
		w := newWorld(t, rejointest.Config{})
		for _, coding := range []string{"gzip", "br", "GZIP", "identity, gzip"} {
			w.refuses(w.request(http.MethodPost, "\x1f\x8b\x08\x00", "Content-Encoding", coding), "415 error(-32600,null)", "Content-Encoding", "Accept-Encoding", "identity")
		}
		for _, coding := range []string{"identity", "gzip"} { // a middleware may have decoded the body, and left the field
			w.answers(w.request(http.MethodPost, kit.Ping, "Content-Encoding", coding))
		}
	}},
	{"an Accept of neither form is refused with 406, with the id; so is initialize without JSON", func(t *testing.T) {
		w := newWorld(t, rejointest.Config{})
		for _, no := range []string{"text/html", "image/*", "*/*;q=0", "application/json;q=0, text/event-stream;q=0.0"} {
			w.refuses(w.request(http.MethodPost, kit.Ping, "Accept", no), `406 error(-32600,"mine")`, "Accept")
			w.refuses(w.request(http.MethodPost, kit.Initialize, "Accept", no, "Mcp-Session-Id", ""), `406 error(-32600,"mine")`, "application/json")
		}
		w.refuses(w.request(http.MethodPost, kit.Ping, "Accept", "text/html", "Accept", "image/png"), `406 error(-32600,"mine")`, "Accept")
		for _, no := range []string{"text/event-stream", "*/*, application/json;q=0", "text/*"} {
			w.refuses(w.request(http.MethodPost, kit.Initialize, "Accept", no, "Mcp-Session-Id", ""), `406 error(-32600,"mine")`, "application/json")
		}
		for _, accept := range []string{"text/html", "*/*;q=0"} {
			for _, body := range []string{aNotification, anAnswer} {
				w.accepts(w.request(http.MethodPost, body, "Accept", accept), http.StatusAccepted)
			}
			w.accepts(w.request(http.MethodPost, `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}`, "Accept", accept), http.StatusAccepted)
		}
		w.lives()
	}},
	{"an Accept that allows one form gets it; wildcards and none allow both", func(t *testing.T) {
		w := newWorld(t, rejointest.Config{})
		const x = `{"jsonrpc":"2.0","id":"mine","method":"x","params":{"_meta":{"progressToken":1}}}`
		for accept, plain := range map[string]bool{
			"application/json": true, "application/*": true, "*/*, text/event-stream;q=0": true, "application/json, text/html": true,
			"text/event-stream": false, "text/*": false, "application/json;q=0, */*": false, "": false, "*/*": false, "*": false,
			"application/json;q=0.1, text/event-stream;q=0.1": false,
		} {
			done := make(chan *http.Response, 1)
			r := w.request(http.MethodPost, x, "Accept", accept)
			go func() { done <- w.c.Do(r) }()
			tool := w.next()
			require.NoError(t, tool.Progress(1, 0, ""))
			go func() { tool.Answer <- "done" }()
			body, res := kit.ReadAll(t, <-done)
			if plain {
				require.Equal(t, "200 result", fmt.Sprint(res.StatusCode, " ", kit.MessageSummary(body)), "%q", accept)
				kit.RequireHead(t, res.Header, "Content-Type", "application/json")
				continue
			}
			kit.RequireStream(t, res)
			require.Equal(t, "primer@0 1:progress 2:result", kit.EventsSummary(body), "%q", accept)
		}
	}},
	{"what is no JSON-RPC message is refused with 400, with the id if there is one", func(t *testing.T) {
		w := newWorld(t, rejointest.Config{})
		deep := strings.Repeat(`{"a":`, 300) + "1" + strings.Repeat("}", 300)
		for body, want := range map[string]string{
			"":                  "-32700,null",
			"{":                 "-32700,null",
			`{"id":"mine",`:     `-32700,"mine"`,
			kit.Ping + "x":      `-32700,"mine"`,
			kit.Ping + kit.Ping: `-32700,"mine"`,
			"\ufeff" + kit.Ping: "-32700,null",
			`{"jsonrpc":"2.0","id":"` + "\x01" + `","method":"x"}`: "-32700,null",
			`null`:                       "-32600,null",
			`"x"`:                        "-32600,null",
			`17`:                         "-32600,null",
			`{}`:                         "-32600,null",
			`{"id":"mine","method":"x"}`: `-32600,"mine"`,
			`{"jsonrpc":"1.0","id":"mine","method":"x"}`:                                          `-32600,"mine"`,
			`{"jsonrpc":"2.0","id":"mine","method":1}`:                                            `-32600,"mine"`,
			`{"jsonrpc":"2.0","id":["mine"],"method":"x"}`:                                        "-32600,null",
			`{"jsonrpc":"2.0","id":null,"method":"x"}`:                                            "-32600,null",
			`{"jsonrpc":"2.0","id":"mine","id":"mine","method":"x"}`:                              "-32600,null",
			`{"jsonrpc":"2.0","id":"mine","method":"x","method":"y"}`:                             `-32600,"mine"`,
			`{"jsonrpc":"2.0","id":"mine","Method":"x"}`:                                          `-32600,"mine"`,
			`{"jsonrpc":"2.0","id":"mine","method":"x","PARAMS":{}}`:                              `-32600,"mine"`,
			`{"jsonrpc":"2.0","id":"mine","method":"x","result":{}}`:                              `-32600,"mine"`,
			`{"jsonrpc":"2.0","id":"mine","method":"x","params":1}`:                               `-32600,"mine"`,
			`{"jsonrpc":"2.0","id":"mine","method":"x","params":` + deep + `}`:                    `-32600,"mine"`,
			`{"jsonrpc":"2.0","id":"mine","method":"x` + strings.Repeat("x", 10) + `","params":[`: `-32700,"mine"`,
		} {
			w.refuses(w.request(http.MethodPost, body), "400 error("+want+")", "")
			w.refuses(w.request(http.MethodPost, body, "Mcp-Session-Id", ""), "400 error("+want+")", "")
		}
		w.lives()
	}},
	{"an unknown version is refused with 400 on every verb, with the known ones", func(t *testing.T) {
		w := newWorld(t, rejointest.Config{Server: rejoin.Config{Eras: rejoin.EraLegacy}})
		for _, v := range everyVerb {
			for _, version := range []string{"2025-01-01", "draft", "x", "2025-11-25a", "2025-6-18", "DRAFT-2026-v1", "1.0"} {
				body := w.refuses(w.request(v.method, v.body, "Mcp-Protocol-Version", version), "400 error(-32600,"+v.id+")", "Mcp-Protocol-Version")
				require.Contains(t, body, saysSupported)
				body = w.refuses(w.request(v.method, v.body, "Mcp-Protocol-Version", version, "Mcp-Session-Id", ""), "400 error(-32600,"+v.id+")", "Mcp-Protocol-Version")
				require.Contains(t, body, saysSupported)
			}
		}
		w.lives()
	}},
	{"a known version that differs, and none, are accepted on every verb, with the session's rules", func(t *testing.T) {
		for _, own := range []string{kit.Polling, kit.Legacy, kit.Batches, "2024-11-05"} {
			for _, said := range append(strings.Split(unmodern, ", "), "") {
				w := newWorld(t, rejointest.Config{Version: own})
				greet := "comment"
				if own == kit.Polling {
					greet = "primer@0"
				}
				require.Equal(t, greet, w.streams(w.get("Mcp-Protocol-Version", said)))
				w.answers(w.request(http.MethodPost, kit.Ping, "Mcp-Protocol-Version", said))
				w.accepts(w.request(http.MethodPost, aNotification, "Mcp-Protocol-Version", said), http.StatusAccepted)
				batch := w.request(http.MethodPost, "["+kit.Ping+"]", "Mcp-Protocol-Version", said)
				if own == kit.Batches {
					body, res := kit.ReadAll(t, w.c.Do(batch))
					require.Equal(t, "200 [result]", fmt.Sprint(res.StatusCode, " ", kit.MessageSummary(body)))
				} else {
					w.refuses(batch, "400 error(-32600,null)", "2025-03-26")
				}
				body, res := kit.ReadAll(t, w.c.Do(w.request(http.MethodPost, kit.Initialize, "Mcp-Protocol-Version", said, "Mcp-Session-Id", "")))
				require.Equal(t, "200 result", fmt.Sprint(res.StatusCode, " ", kit.MessageSummary(body)))
				body, res = kit.ReadAll(t, w.c.Do(w.request(http.MethodDelete, "", "Mcp-Protocol-Version", said)))
				require.Equal(t, "204 ", fmt.Sprint(res.StatusCode, " ", body))
			}
		}
	}},
	{"a modern request is refused with 400 on every verb, by a message that names our versions", func(t *testing.T) {
		w := newWorld(t, rejointest.Config{Server: rejoin.Config{Eras: rejoin.EraLegacy}})
		for _, v := range everyVerb {
			for _, version := range []string{"2026-07-28", "2026-07-29", "2027-01-01", "9999-99-99"} {
				for _, session := range [][]string{nil, {"Mcp-Session-Id", ""}, {"Mcp-Session-Id", "nobody"}} {
					r := w.request(v.method, v.body, append([]string{"Mcp-Protocol-Version", version}, session...)...)
					require.Contains(t, w.refuses(r, "400 error(-32600,"+v.id+")", unmodern), saysSupported)
				}
			}
		}
		for _, version := range []string{`"2026-07-28"`, `"2030-01-01"`, `"x"`, `""`, `17`, `null`} {
			for _, method := range []string{"ping", "server/discover", "initialize"} {
				body := `{"jsonrpc":"2.0","id":"mine","method":"` + method + `","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":` + version + `}}}`
				for _, session := range [][]string{nil, {"Mcp-Session-Id", ""}, {"Mcp-Protocol-Version", ""}} {
					require.Contains(t, w.refuses(w.request(http.MethodPost, body, session...), `400 error(-32600,"mine")`, unmodern), saysSupported)
				}
			}
		}
		w.answers(w.request(http.MethodPost, `{"jsonrpc":"2.0","id":"mine","method":"ping","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2025-06-18"}}}`))
		w.lives()
	}},
	{"HEAD and other verbs are refused with 405 and Allow, whatever else they say", func(t *testing.T) {
		w := newWorld(t, rejointest.Config{})
		for _, method := range []string{"PUT", "PATCH", "OPTIONS", "TRACE", "PROPFIND", "MCP", "get"} {
			for _, header := range [][]string{nil, {"Mcp-Session-Id", "nobody"}, {"Mcp-Protocol-Version", "x"}, {"Accept", "text/html"}} {
				w.refuses(w.request(method, "", header...), "405 error(-32600,null)", "GET, POST or DELETE", "Allow", "GET, POST, DELETE")
			}
		}
		before := w.trace("HEAD")
		body, res := kit.ReadAll(t, w.c.Do(w.request(http.MethodHead, "")))
		require.Equal(t, "405 ", fmt.Sprint(res.StatusCode, " ", body))
		kit.RequireHead(t, res.Header, "Content-Type", "application/json", "Allow", "GET, POST, DELETE")
		w.untouched(before, 1)
		w.lives()
	}},
	{"what is refused again and again keeps nothing, not even for a moment", func(t *testing.T) {
		w := newWorld(t, rejointest.Config{})
		_, tool := w.call()
		before := w.trace("four hundred refusals")
		for range 100 {
			for _, r := range []*http.Request{
				w.request(http.MethodPost, `{"jsonrpc":"2.0","id":2,"method":"x"}`), w.cursor("garbage"), w.request(http.MethodPost, "["), w.get("Accept", "x/y"),
			} {
				require.Equal(t, "ended", lastWord(kit.Serve(w.c.Server(), inSessionOf(tool, r)).Summary()))
			}
		}
		synctest.Wait()
		w.untouched(before, 400)
	}},
}

// inSessionOf puts a request into the session of a tool.
func inSessionOf(p *kit.ManualTool, r *http.Request) *http.Request {
	r.Header.Set("Mcp-Session-Id", p.Session().ID())
	return r
}

func lastWord(s string) string { return s[strings.LastIndex(s, " ")+1:] }
