package wire_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// handing is an app whose modern handler answers each request with an error that nothing else has, and each notification without a body.
func handing() kit.BothEras {
	return kit.BothEras{Fake: &kit.Fake{}, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request struct{ ID json.RawMessage }
		_ = json.NewDecoder(r.Body).Decode(&request) // it was checked
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusTeapot)
		if request.ID != nil {
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":418,"message":"handed"}}`, request.ID) // the client may be gone
		}
	})}
}

// choosing is a client of a server that chooses the era by the client.
func choosing(t *testing.T) *rowWorld {
	t.Helper()
	counted := &countedOpens{App: handing()}
	return &rowWorld{t: t, c: rejointest.New(t, counted, rejointest.Config{}), opened: &counted.n, seen: map[string]bool{}}
}

// hands checks that a request reaches the app's modern handler.
func (w *rowWorld) hands(body string, header ...string) {
	w.t.Helper()
	before := w.trace("handed")
	answer, res := w.ends(w.request(http.MethodPost, body, header...))
	require.Equal(w.t, http.StatusTeapot, res.StatusCode, "%s: %s", body, answer)
	if strings.Contains(body, `"id":`) {
		require.Equal(w.t, `error(418,"mine")`, kit.MessageSummary(answer), body)
	} else {
		require.Empty(w.t, answer, body)
	}
	w.untouched(before, 0)
}

const (
	tasksKey  = `"io.modelcontextprotocol/tasks"`
	withTasks = `"io.modelcontextprotocol/clientCapabilities":{"extensions":{` + tasksKey + `:{}}}`
)

// probe is a complete server/discover whose client says that about itself: members of _meta.
func probe(members string) string {
	return strings.Replace(kit.ModernBody("server/discover", "", ""), capabilitiesMember, members, 1)
}

// extended is a probe whose client has those members in the extensions of its capabilities.
func extended(extensions string) string {
	return probe(strings.Replace(capabilitiesMember, "{}", `{"extensions":`+extensions+`}`, 1))
}

// named is a probe without tasks of a client with that name and version.
func named(name, version string) string {
	return probe(capabilitiesMember + `,"io.modelcontextprotocol/clientInfo":{"name":"` + name + `","version":"` + version + `"}`)
}

// sent is a request: a body, and header fields, names and values in turn.
type sent struct {
	body   string
	header []string
}

// withoutTasks returns probes of clients that declare no tasks.
func withoutTasks() (all []sent) {
	plain := probe(capabilitiesMember)
	add := func(body string, header ...string) { all = append(all, sent{body, header}) }
	add(plain, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "server/discover")
	add(plain)
	// Modern by its header alone; other names in its header; another id; without capabilities.
	add(strings.Replace(kit.Ping, "ping", "server/discover", 1), kit.ModernHeader...)
	add(strings.Replace(plain, "server/", `server\/`, 1), "Mcp-Method", "tools/call")
	add(strings.Replace(plain, `"mine"`, "17", 1), "Mcp-Session-Id", "")
	add(probe(`"x":1`))
	// A version that the app may know, and what cannot be a version.
	add(strings.ReplaceAll(plain, "2026-07-28", "2027-01-01"))
	add(strings.ReplaceAll(plain, "2026-07-28", "draft"), "Accept", "text/html")
	add(strings.ReplaceAll(plain, `"2026-07-28"`, "17"), "Mcp-Session-Id", "nobody")
	// The tasks of older versions, and the extension in wrong places.
	add(probe(strings.Replace(capabilitiesMember, "{}", `{"tasks":{"list":{},"cancel":{}}}`, 1)))
	add(probe(strings.Replace(capabilitiesMember, "{}", `{`+tasksKey+`:{}}`, 1)))
	add(probe(capabilitiesMember + `,"extensions":{` + tasksKey + `:{}}`))
	add(strings.Replace(plain, `"params":{`, `"params":{"extensions":{`+tasksKey+`:{}},`, 1))
	for _, extensions := range []string{
		`{}`, `null`, `[]`, `[` + tasksKey + `]`, `"x"`, `{"io.modelcontextprotocol/ui":{}}`, `{"io.modelcontextprotocol/Tasks":{}}`, `{"tasks":{}}`,
		`{"x":{` + tasksKey + `:{}}}`,
		`{` + tasksKey + `:{},` + tasksKey + `:null}`, // the last one counts
	} {
		add(extended(extensions), kit.ModernHeader...)
	}
	for _, value := range []string{`null`, `true`, `false`, `0`, `1`, `""`, `"{}"`, `[]`, `[{}]`} {
		add(extended(`{`+tasksKey+`:`+value+`}`), kit.ModernHeader...)
	}
	add(named("typescript", "1"), "User-Agent", "node")
	add(named("rmcp", "3.0.0")) // the first one that polls
	add(named("AI-SDK-MCP-CLIENT", "1.0.0"))
	return all
}

// requireSame sends a request to two servers, and requires that they answer with the same bytes. It returns the answer.
func requireSame(t *testing.T, one, other *rejoin.Server, request func() *http.Request) *kit.Response {
	t.Helper()
	want, got := kit.Serve(one, request()), kit.Serve(other, request())
	what := fmt.Sprintf("%+v", request())
	require.Equal(t, want.Summary(), got.Summary(), what)
	require.Equal(t, want.Status, got.Status, what)
	if strings.Contains(want.Summary(), "result") { // the ids of their sessions differ
		want.Head.Del("Mcp-Session-Id")
		got.Head.Del("Mcp-Session-Id")
	}
	require.Equal(t, want.Head, got.Head, what)
	require.Equal(t, want.Body.String(), got.Body.String(), what)
	require.Equal(t, want.Flushed, got.Flushed, what)
	return got
}

// Servers that choose the era by the client: EraDefault with an app that serves modern requests.
var defaultEraRows = []row{
	{"the probe of a client without tasks gets what EraLegacy answers, byte for byte, leaves nothing, and the client can open a session", func(t *testing.T) {
		w := choosing(t)
		legacy := kit.NewServer(t, handing(), rejoin.Config{Eras: rejoin.EraLegacy})
		chosen := kit.NewServer(t, handing(), rejoin.Config{})
		for _, p := range withoutTasks() {
			want := requireSame(t, legacy, chosen, func() *http.Request { return kit.Request(t, http.MethodPost, p.body, p.header...) })
			id := `"mine"`
			if strings.Contains(p.body, `"id":17`) {
				id = "17"
			}
			require.Equal(t, want.Body.String(), w.refuses(w.request(http.MethodPost, p.body, p.header...), "400 error(-32600,"+id+")", unmodern))
		}
		require.Equal(t, legacy.Stats(), chosen.Stats())
		body, res := kit.Post(t, w.c, kit.Initialize, "Mcp-Session-Id", "")
		require.Equal(t, "200 result", res.Status[:4]+kit.MessageSummary(body))
	}},
	{"so it does while draining, and where it passes no door", func(t *testing.T) {
		answer := func(eras rejoin.Eras, header ...string) *kit.Response {
			s := kit.NewServer(t, handing(), rejoin.Config{Eras: eras, MaxBodyBytes: 1000})
			kit.Drain(t, s, 0)
			r := kit.ToLoopback(kit.Request(t, http.MethodPost, probe(capabilitiesMember), header...))
			r.Host = "localhost"
			return kit.Serve(s, r)
		}
		for want, header := range map[string][]string{
			`400 error(-32600,"mine") ended`: nil,
			"403 error(-32600,null) ended":   {"Origin", "https://evil.example"},
			`415 error(-32600,"mine") ended`: {"Content-Type", "text/plain"},
		} {
			legacy, chosen := answer(rejoin.EraLegacy, header...), answer(rejoin.EraDefault, header...)
			require.Equal(t, want, chosen.Summary())
			require.Equal(t, legacy.Head, chosen.Head)
			require.Equal(t, legacy.Body.String(), chosen.Body.String())
		}
		s := kit.NewServer(t, handing(), rejoin.Config{})
		two := kit.Request(t, http.MethodPost, probe(capabilitiesMember))
		two.Header["Mcp-Protocol-Version"] = []string{"2026-07-28", "2027-01-01"}
		require.Equal(t, `400 error(-32600,"mine") ended`, kit.Serve(s, two).Summary(), "two versions")
	}},
	{"the probe of a client with tasks goes to the app's modern handler, whatever settings it names", func(t *testing.T) {
		w := choosing(t)
		for _, extensions := range []string{
			`{` + tasksKey + `:{}}`, `{ ` + tasksKey + ` : { } }`, `{"x":null,` + tasksKey + `:{"later":["setting"]}}`, `{"io.modelcontextprotocol\/tasks":{}}`,
			`{"io.modelcontextprotocol/task\u0073":{}}`, `{` + tasksKey + `:null,` + tasksKey + `:{}}`,
		} {
			w.hands(extended(extensions), kit.ModernHeader...)
			w.hands(extended(extensions), "Mcp-Session-Id", "")
		}
	}},
	{"the probe of a client that never polls goes there too: the legacy era would not help it", func(t *testing.T) {
		w := choosing(t)
		for _, body := range []string{named("ai-sdk-mcp-client", "1.0.0"), named("Java SDK MCP Client", "2.0.1"), named("rmcp", "2.2.0")} {
			w.hands(body, kit.ModernHeader...)
		}
		for _, agent := range []string{"ai-sdk/2.0.99 node.js/22", "Java-http-client/21"} {
			w.hands(probe(capabilitiesMember), "User-Agent", agent)
		}
	}},
	{"nothing but a probe is refused: calls, subscriptions and notifications of clients without tasks are served", func(t *testing.T) {
		w := choosing(t)
		for _, body := range []string{
			kit.ModernPing, kit.ModernListenBody, kit.ModernNotification, kit.ModernBody("tools/call", `,"name":"x"`, ""), kit.ModernBody("tools/list", "", ""),
			kit.ModernBody("initialize", "", ""), kit.ModernBody("server/Discover", "", ""),
			strings.Replace(probe(capabilitiesMember), `"id":"mine",`, "", 1), // a notification
		} {
			w.hands(body, kit.ModernHeader...)
		}
		w.hands(kit.Initialize, kit.ModernHeader...)
		body, res := kit.Post(t, w.c, probe(capabilitiesMember)[:60], "Mcp-Protocol-Version", "")
		require.Equal(t, `400 error(-32700,"mine")`, kit.Refusal(t, body, res), "half a probe")
		w.answers(w.request(http.MethodPost, kit.Ping))
	}},
	{"everything else is answered as with EraBoth, byte for byte", func(t *testing.T) {
		chosen, both := kit.NewServer(t, handing(), rejoin.Config{}), kit.NewServer(t, handing(), rejoin.Config{Eras: rejoin.EraBoth})
		for _, version := range []string{"", "2026-07-28", "2027-01-01", "2026-01-01", "draft", "2025-11-25"} {
			for _, session := range []string{"", "nobody"} {
				header := []string{"Mcp-Protocol-Version", version, "Mcp-Session-Id", session}
				for _, v := range append(
					everyVerb, rowVerb{"another verb", http.MethodPut, "", ""}, rowVerb{"modern", http.MethodPost, kit.ModernPing, ""},
					rowVerb{"unknown", http.MethodPost, strings.Replace(kit.ModernPing, "2026-07-28", "2026-01-01", 1), ""},
					rowVerb{"a batch", http.MethodPost, "[" + probe(withTasks) + "]", ""}, rowVerb{"a batch", http.MethodPost, "[" + probe(capabilitiesMember) + "]", ""},
					rowVerb{"with tasks", http.MethodPost, probe(withTasks), ""},
					rowVerb{"of no version", http.MethodPost, strings.Replace(probe(withTasks), "2026-07-28", "2026-01-01", 1), ""},
					rowVerb{"a legacy request of that name", http.MethodPost, strings.Replace(kit.Ping, "ping", "server/discover2", 1), ""},
				) {
					requireSame(t, both, chosen, func() *http.Request { return kit.Request(t, v.method, v.body, header...) })
				}
			}
		}
		require.Equal(t, both.Stats(), chosen.Stats())
	}},
	{"an app without a modern handler is served as with EraLegacy", func(t *testing.T) {
		for _, app := range []rejoin.App{&kit.Fake{}, kit.BothEras{Fake: &kit.Fake{}}} {
			legacy, chosen := kit.NewServer(t, app, rejoin.Config{Eras: rejoin.EraLegacy}), kit.NewServer(t, app, rejoin.Config{})
			for _, body := range []string{probe(capabilitiesMember), probe(withTasks), named("ai-sdk-mcp-client", "1.0.0"), kit.ModernPing, "[" + kit.ModernPing + "]"} {
				got := requireSame(t, legacy, chosen, func() *http.Request { return kit.Request(t, http.MethodPost, body, kit.ModernHeader...) })
				require.Contains(t, got.Body.String(), unmodern)
			}
		}
	}},
}
