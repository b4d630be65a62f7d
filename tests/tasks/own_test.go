package tasks_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// echo is a modern handler that answers with what it got, in an odd form, so that each change of a byte is seen. It answers server/discover with
// discover.
func echo(discover string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Header.Get("Mcp-Method") == "server/discover" {
			body = []byte(discover)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("X-Own", "1")
		_, _ = w.Write([]byte(": odd\n\nid: 5\ndata: " + string(body) + "\n\n"))
		if r.Header.Get("Slow") != "" {
			kit.Elapse(time.Minute)
			_, _ = w.Write([]byte("data: late\n\n"))
		}
	})
}

// requests are one of each kind that the server would serve itself.
func (w *world) requests() map[string]*http.Request {
	return map[string]*http.Request{
		"discover": w.request("server/discover", "", ""),
		"get":      w.request("tasks/get", "x", `,"taskId":"x"`),
		"update":   w.request("tasks/update", "x", `,"taskId":"x"`),
		"cancel":   w.request("tasks/cancel", "y", `,"taskId":"x"`),
		"list":     w.request("tasks/list", "", ""),
		"listen":   w.request("subscriptions/listen", "", `,"notifications":{"taskIds":["x",1]}`),
		"call":     w.call(),
		"slow":     w.call("Slow", "yes"),
	}
}

// With tasks off, and where the app has the extension itself, all requests reach it, and all answers are its own, byte for byte.
func TestAppsThatAreLeftAlone(t *testing.T) {
	with := strings.Replace(rawDiscover, `"tools":{}`, `"tools":{},"tasks":{"list":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}`, 1)
	for name, test := range map[string]struct {
		discover string
		tasks    rejoin.Tasks
	}{
		"off":              {rawDiscover, rejoin.Tasks{Off: true}},
		"off, and its own": {with, rejoin.Tasks{Off: true}},
		"its own":          {with, rejoin.Tasks{Required: func(string) bool { return true }}},
	} {
		for _, first := range []string{"discover", "get", "listen", "slow", "call"} { // from which the server learns what the app has
			t.Run(name+", first "+first, func(t *testing.T) {
				kit.Bubble(t, func(t *testing.T) {
					w := beginWith(t, kit.BothEras{Fake: &kit.Fake{}, Handler: echo(test.discover)}, configured(rejoin.Config{Tasks: test.tasks, KeepAlive: -1}))
					check := func(name string) {
						r := w.requests()[name]
						sent := string(bodyOf(t, r))
						r = replaced(r, sent)
						if name == "discover" {
							sent = test.discover
						}
						want := ": odd\n\nid: 5\ndata: " + sent + "\n\n"
						if name == "slow" {
							want += "data: late\n\n"
						}
						all, res := kit.ReadAll(t, w.Do(r))
						require.Equal(t, want, all, name)
						require.Equal(t, "1", res.Header.Get("X-Own"), name)
					}
					check(first)
					for name := range w.requests() {
						check(name)
					}
					require.Zero(t, w.Server().Stats().TasksMade)
				})
			})
		}
	}
}

// A server/discover of an app without the extension gets it, and loses the tasks of older versions, whatever the form and the rest of it.
func TestDiscover(t *testing.T) {
	for name, test := range map[string]struct{ capabilities, want string }{
		"some":        {`"capabilities":{"tools":{"x":1}},`, `"capabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}},"tools":{"x":1}},`},
		"none":        {``, ``},
		"null":        {`"capabilities":null,`, `"capabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}},`},
		"old tasks":   {`"capabilities":{"tasks":{"list":{}}},`, `"capabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}},`},
		"others":      {`"capabilities":{"extensions":{"a/b":{"c":1}}},`, `"capabilities":{"extensions":{"a/b":{"c":1},"io.modelcontextprotocol/tasks":{}}},`},
		"no object":   {`"capabilities":{"extensions":[1]},`, `"capabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}},`},
		"no settings": {`"capabilities":{"extensions":{"io.modelcontextprotocol/tasks":true}},`, `"capabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}},`},
	} {
		for _, stream := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				kit.Bubble(t, func(t *testing.T) {
					answer := func(capabilities string) string {
						return `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete",` + capabilities + `"supportedVersions":["2026-07-28"],"big":12345678901234567890}}`
					}
					w := beginWith(t, kit.BothEras{Fake: &kit.Fake{}, Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
						c := rawCall{rw, r, ""}
						if stream {
							c.streams()
							c.puts(event(rawProgress("one")) + event(answer(test.capabilities)) + event(rawProgress("two")))
							return
						}
						c.json(200, answer(test.capabilities))
					})}, configured(rejoin.Config{}))
					want := answer(test.want)
					if test.want == "" {
						want = strings.Replace(answer(""), `{"resultType"`, `{"capabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}},"resultType"`, 1)
					}
					require.Equal(t, want, body(t, w, w.request("server/discover", "", "")))
					require.Equal(t, event(want), body(t, w, w.request("server/discover", "", "", "Accept", "text/event-stream")))
				})
			})
		}
	}
}

// An app that fails at server/discover is asked again, and its other answers are not affected.
func TestAnAppThatFailsAtDiscover(t *testing.T) {
	for name, do := range map[string]func(rawCall){
		"an error": func(c rawCall) { c.json(404, rawError) },
		"panics":   func(rawCall) { panic("secret") },
		"nothing":  func(rawCall) {},
		"garbage":  func(c rawCall) { c.json(200, "garbage") },
		"a batch":  func(c rawCall) { c.json(200, "["+rawDiscover+"]") },
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				asked := 0
				w := beginWith(t, kit.BothEras{Fake: &kit.Fake{}, Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
					c := rawCall{rw, r, ""}
					switch {
					case r.Header.Get("Mcp-Method") != "server/discover":
						kit.Elapse(2 * time.Second)
						c.json(200, rawResult)
					case asked < 2:
						asked++
						do(c)
					default:
						c.json(200, rawDiscover)
					}
				})}, configured(rejoin.Config{Logger: kit.QuietLogger()}))
				status, answer := w.do(w.request("server/discover", "", ""))
				require.Equal(t, map[bool]int{true: 404, false: 500}[name == "an error"], status)
				require.Contains(t, answer, "error")
				if name != "an error" { // whose id the app has chosen
					require.EqualValues(t, w.last, answer["id"])
				}
				id := w.makeTask()
				kit.Elapse(time.Second)
				require.Equal(t, "completed", w.settled(id)["status"])
				require.Equal(t, "task", w.result(w.call())["resultType"])
				require.Equal(t, 2, asked)
			})
		})
	}
}

// A client that waits for the app's server/discover may disconnect, and delays nobody.
func TestADiscoverThatHangs(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		hangs := true
		w := beginWith(t, kit.BothEras{Fake: &kit.Fake{}, Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			c := rawCall{rw, r, ""}
			switch {
			case r.Header.Get("Mcp-Method") != "server/discover":
				kit.Elapse(2 * time.Second)
				c.json(200, rawResult)
			case hangs:
				<-r.Context().Done()
			default:
				c.json(200, rawDiscover)
			}
		})}, configured(rejoin.Config{}))
		first, leave := withCancel(w.call())
		second, leaveToo := withCancel(w.call())
		res, other := w.open(first), w.open(second)
		kit.Elapse(time.Minute)
		hangs = false
		leaveToo()
		kit.Elapse(3 * time.Second)
		require.True(t, ended(other), "it waits behind another one")
		leave()
		kit.Elapse(3 * time.Second)
		require.True(t, ended(res))
		w.makeTask()
	})
}
