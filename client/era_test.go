package client_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/client"
)

// eras is a server that answers server/discover with a status and a body, and speaks the legacy era, or not.
type eras struct {
	status       int
	discover     string // body; "": nothing is answered; its %s is the id
	session      string // id of a session that it opens at any request
	refuseLegacy string // what initialize is answered with; "": a session

	mu   sync.Mutex
	seen []string
}

func (s *eras) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	var m struct {
		ID     json.RawMessage
		Method string
	}
	_ = json.Unmarshal(raw, &m)
	s.mu.Lock()
	s.seen = append(s.seen, strings.TrimSpace(r.Method+" "+m.Method))
	s.mu.Unlock()
	h := request{id: string(m.ID)}
	switch {
	case m.Method == "server/discover" && s.discover == "":
		<-r.Context().Done()
	case m.Method == "server/discover":
		if s.session != "" {
			w.Header().Set("Mcp-Session-Id", s.session)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(s.status)
		_, _ = io.WriteString(w, strings.ReplaceAll(s.discover, "%s", h.id))
	case m.Method == "initialize" && s.refuseLegacy != "":
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, strings.ReplaceAll(s.refuseLegacy, "%s", h.id))
	case m.Method == "initialize":
		w.Header().Set("Mcp-Session-Id", "sid")
		h.answer(w, initialized("2025-11-25"))
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

func TestAutoChoosesTheEraInWhichLongCallsLive(t *testing.T) {
	result := func(result string) string { return `{"jsonrpc":"2.0","id":%s,"result":` + result + `}` }
	failure := func(e string) string { return `{"jsonrpc":"2.0","id":%s,"error":` + e + `}` }
	const (
		both   = `{"resultType":"complete","supportedVersions":["2026-07-28","2025-11-25"],"capabilities":{}}`
		modern = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{}}`
		tasks  = `{"resultType":"complete","supportedVersions":["2026-07-28","2025-11-25"],
			"capabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
		noVersion = `{"code":-32022,"message":"no","data":{"supported":["2026-07-28"]}}`
		noLegacy  = `{"code":-32022,"message":"no","data":{"supported":["2025-11-25"]}}`
	)
	for name, test := range map[string]struct {
		server *eras
		want   string // version
		seen   string
	}{
		"both eras, with tasks": {&eras{status: 200, discover: result(tasks)}, "2026-07-28", "POST server/discover"},
		"both eras, without tasks": {
			&eras{status: 200, discover: result(both)}, "2025-11-25", "POST server/discover,POST initialize,POST notifications/initialized",
		},
		"tasks that are no object": {
			&eras{status: 200, discover: result(strings.Replace(tasks, "{}", "null", 1))}, "2025-11-25", "",
		},
		"the modern era alone":          {&eras{status: 200, discover: result(modern)}, "2026-07-28", "POST server/discover"},
		"both, but no initialize":       {&eras{status: 200, discover: result(both), refuseLegacy: failure(noVersion)}, "2026-07-28", ""},
		"the newest without a name":     {&eras{status: 200, discover: result(`{"supportedVersions":["2099-01-01"]}`)}, "2025-11-25", ""},
		"a result that is none":         {&eras{status: 200, discover: result(`[]`)}, "2025-11-25", ""},
		"legacy, 400":                   {&eras{status: 400, discover: failure(`{"code":-32600,"message":"no"}`)}, "2025-11-25", ""},
		"legacy, 400 and a page":        {&eras{status: 400, discover: "Bad Request"}, "2025-11-25", ""},
		"legacy, 404":                   {&eras{status: 404, discover: failure(`{"code":-32601,"message":"no"}`)}, "2025-11-25", ""},
		"legacy, 200 and -32601":        {&eras{status: 200, discover: failure(`{"code":-32601,"message":"no"}`)}, "2025-11-25", ""},
		"legacy, 405":                   {&eras{status: 405, discover: "no"}, "2025-11-25", ""},
		"legacy, -32022":                {&eras{status: 400, discover: failure(noLegacy)}, "2025-11-25", ""},
		"legacy, 202":                   {&eras{status: 202, discover: " "}, "2025-11-25", ""},
		"legacy, 500":                   {&eras{status: 500, discover: "oops"}, "2025-11-25", ""},
		"legacy, which answers nothing": {&eras{}, "2025-11-25", ""},
		"legacy, a session at any request": {
			&eras{status: 400, discover: "no", session: "other"}, "2025-11-25",
			"POST server/discover,DELETE,POST initialize,POST notifications/initialized",
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := connect(t, serve(t, test.server), client.Config{})
				require.Equal(t, test.want, s.Version())
				require.Equal(t, test.want == "2025-11-25", s.ID() == "sid")
				require.Equal(t, test.want == "2025-11-25", strings.Contains(string(s.Server()), "protocolVersion"), "%s", s.Server())
				if test.seen != "" {
					require.Equal(t, test.seen, strings.Join(test.server.seen, ","))
				}
			})
		})
	}
}

// A probe that a proxy lost is made again before a server of the modern era is given up.
func TestAProbeThatWasLostIsMadeAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := &tasking{t: t, on: on{
			"server/discover": func(w http.ResponseWriter, h request, n int) {
				if n == 1 {
					w.WriteHeader(http.StatusBadGateway)
					return
				}
				h.answer(w, withTasks)
			},
		}}
		legacy := refusing(400, "application/json", `{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"no","data":{"supported":["2026-07-28"]}}}`)
		s := connect(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Mcp-Protocol-Version") == "" {
				legacy.ServeHTTP(w, r)
				return
			}
			server.ServeHTTP(w, r)
		})), client.Config{})
		require.Equal(t, "2026-07-28", s.Version())
		require.JSONEq(t, withTasks, string(s.Server()))
	})
}

func TestAnEraThatIsNamedIsTheOnlyOne(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := &eras{status: 200, discover: `{"jsonrpc":"2.0","id":%s,"result":` + withTasks + `}`}
		s := connect(t, serve(t, server), client.Config{Era: client.EraLegacy})
		require.Equal(t, "2025-11-25", s.Version())
		require.Equal(t, []string{"POST initialize", "POST notifications/initialized"}, server.seen, "and nothing is tried before")
	})
	for name, test := range map[string]struct {
		server  *eras
		offered []string
	}{
		"another version": {&eras{
			status: 200, discover: `{"jsonrpc":"2.0","id":%s,"result":{"supportedVersions":["2099-01-01"]}}`,
		}, []string{"2099-01-01"}},
		"-32022": {&eras{
			status: 400, discover: `{"jsonrpc":"2.0","id":%s,"error":{"code":-32022,"message":"no","data":{"supported":["2025-11-25"]}}}`,
		}, []string{"2025-11-25"}},
		"a legacy server":    {&eras{status: 400, discover: `{"jsonrpc":"2.0","id":%s,"error":{"code":-32600,"message":"no session"}}`}, nil},
		"one without POST":   {&eras{status: 405, discover: "no"}, nil},
		"an unknown method":  {&eras{status: 200, discover: `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`}, nil},
		"a page of its host": {&eras{status: 404, discover: "no"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				_, err := client.Connect(t.Context(), address, client.Config{HTTP: serve(t, test.server), Era: client.EraModern})
				var e *client.VersionError
				require.ErrorAs(t, err, &e)
				require.Equal(t, test.offered, e.Offered)
				require.ErrorContains(t, err, "this client was to speak 2026-07-28 (Config.Era)")
				require.Equal(t, []string{"POST server/discover"}, test.server.seen)
			})
		})
	}
	bubble(t, func(t *testing.T) {
		_, err := client.Connect(t.Context(), address, client.Config{HTTP: serve(t, &eras{status: 503, discover: "no"}), Era: client.EraModern})
		var e *client.StatusError
		require.ErrorAs(t, err, &e)
		require.Equal(t, 503, e.Status)
	})
	_, err := client.Connect(t.Context(), address, client.Config{Era: 9})
	require.ErrorContains(t, err, "Config.Era")
}

// A refusal is about the form of a request: nothing has run.
func TestAModernRefusalIsAStatusError(t *testing.T) {
	for code, status := range map[int]int{-32020: 400, -32021: 400, -32022: 400, -32600: 400, -32700: 400, -32603: 500, -32000: 503, -32001: 401} {
		bubble(t, func(t *testing.T) {
			server := &tasking{on: on{"tools/call": func(w http.ResponseWriter, h request, n int) { h.refuse(w, status, code) }}}
			_, _, call := playTask(t, server, client.Config{})
			err := call.Wait(t.Context(), nil)
			var e *client.StatusError
			require.ErrorAs(t, err, &e)
			require.Equal(t, status, e.Status)
			require.Equal(t, code, e.Err.Code)
			require.NotErrorIs(t, err, client.ErrMayHaveRun)
		})
	}
}

func TestListenSubscribesInTheModernEra(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const changed = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"n":%d}}`
		agree := func(h request) string {
			return "data: " + `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{` +
				`"_meta":{"io.modelcontextprotocol/subscriptionId":` + h.id + `},"notifications":{}}}` + "\n\n"
		}
		event := func(n string) string { return "data: " + strings.Replace(changed, "%d", n, 1) + "\n\n" }
		server := &tasking{t: t, on: on{"subscriptions/listen": func(w http.ResponseWriter, h request, n int) {
			switch n {
			case 1: // ends in order
				stream(w, agree(h)+event("1")+"data: "+`{"jsonrpc":"2.0","id":`+h.id+`,"result":{"resultType":"complete"}}`+"\n\n")
			case 2: // breaks
				stream(w, agree(h)+event("2"))
			case 3:
				w.WriteHeader(http.StatusBadGateway)
			default:
				stream(w, agree(h)+event("3"))
				<-h.gone
			}
		}}}
		s := connect(t, serve(t, server), client.Config{})
		var got []string
		for m, err := range s.Listen(t.Context()) {
			require.NoError(t, err)
			require.Equal(t, "notifications/tools/list_changed", m.Method)
			if got = append(got, string(m.Params)); len(got) == 3 {
				break
			}
		}
		require.Equal(t, []string{`{"n":1}`, `{"n":2}`, `{"n":3}`}, got)
		require.JSONEq(t, `{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}`,
			string(server.hits("subscriptions/listen")[0].params["notifications"]))
		synctest.Wait()
	})
}

func TestAModernServerWithoutSubscriptions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := &tasking{t: t, on: on{"subscriptions/listen": func(w http.ResponseWriter, h request, n int) { h.refuse(w, 404, -32601) }}}
		begun := time.Now()
		s := connect(t, serve(t, server), client.Config{OnNotification: func(string, json.RawMessage) {}})
		require.Zero(t, time.Since(begun), "Connect need not wait")
		require.NoError(t, s.Close(t.Context()))
		s = connect(t, serve(t, server), client.Config{})
		for _, err := range s.Listen(t.Context()) {
			require.ErrorIs(t, err, client.ErrNoStandalone)
		}
	})
}

func TestOnNotificationGetsWhatASubscriptionBrings(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := &tasking{t: t, on: on{"subscriptions/listen": func(w http.ResponseWriter, h request, n int) {
			stream(w, "data: "+note(1)+"\n\n")
			<-h.gone
		}}}
		got := make(chan string, 1)
		s := connect(t, serve(t, server), client.Config{OnNotification: func(_ string, params json.RawMessage) { got <- string(params) }})
		require.Equal(t, `{"n":1}`, <-got)
		require.NoError(t, s.Close(t.Context()))
	})
}
