package wire_test

import (
	"crypto/rand"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// newClusterWorld is a world whose server is in a cluster with another one. The session of the client is at the server; other is the session id of one
// that is at the other server.
func newClusterWorld(t *testing.T, version string) (
	w *rowWorld, link *clustertest.Faulty, network *kit.Network, other string,
) {
	t.Helper()
	engine := cluster.NewMemory(eventstore.MemoryConfig{})
	link = clustertest.NewFaulty(engine, engine, nil)
	network = kit.NewNetwork(t)
	config := func(name string, store eventstore.Store) rejoin.Config {
		return rejoin.Config{
			Store: store, Cluster: &rejoin.Cluster{Name: "rows", Self: "http://" + name, Transport: network.Transport(name)},
			Logger: kit.QuietLogger(), StoreTimeout: time.Second,
		}
	}
	app, _ := kit.ManualTools()
	s := kit.NewServer(t, app, config("other", engine))
	t.Cleanup(s.Close)
	network.Serve("other", stdadapter.New(s))
	synctest.Wait() // it joins
	other = kit.OpenReady(t, s)
	w = newWorld(t, rejointest.Config{Version: version, Server: config("own", link), Handler: func(s *rejoin.Server) http.Handler {
		network.Serve("own", stdadapter.New(s))
		synctest.Wait()
		return http.HandlerFunc(s.Serve)
	}})
	return w, link, network, other
}

// Sessions that several processes serve.
var clusterRows = []row{
	{"a request for a session of another process is answered by that process", func(t *testing.T) {
		w, _, _, other := newClusterWorld(t, kit.Batches)
		here := []string{"Mcp-Session-Id", other}
		w.answers(w.request(http.MethodPost, kit.Ping, here...))
		w.accepts(w.request(http.MethodPost, aNotification, here...), http.StatusAccepted)
		w.accepts(w.request(http.MethodPost, anAnswer, here...), http.StatusAccepted)
		w.refusesBy(0, w.request(http.MethodPost, "["+kit.Ping+"]", here...), "400 error(-32600,null)", "batches exist only in version 2025-03-26")
		w.refuses(w.request(http.MethodGet, "", append(here, "Last-Event-Id", "nonsense")...), "400 error(-32600,null) unknown", "never sent such an event id")
		require.Equal(t, "primer@0", w.streams(w.get(here...)))
		body, res := w.ends(w.request(http.MethodDelete, "", here...))
		require.Equal(t, http.StatusNoContent, res.StatusCode, body)
		w.refuses(w.request(http.MethodPost, kit.Ping, here...), "404 error(-32001,null)", "no such session")
		w.lives()
	}},
	{"a request is refused where the process that owns the session cannot be reached; a request of JSON-RPC gets an error with status 200", func(t *testing.T) {
		w, _, network, other := newClusterWorld(t, kit.Batches)
		network.Refuse("other", true)
		for _, v := range sessionVerbs {
			req := w.request(v.method, v.body, "Mcp-Session-Id", other)
			switch v.name {
			case "a request", "a batch":
				body, res := w.ends(req)
				require.Equal(t, http.StatusOK, res.StatusCode)
				require.Contains(t, body, `"id":"mine","error":{"code":-32000,"message":"the process that owns the session could not be reached; the request has not run"`)
				require.Contains(t, body, `"data":{"reason":"unreachable"}}`)
				require.Equal(t, v.name == "a batch", body[0] == '[')
			case "a GET":
			default:
				w.refuses(req, "503 error(-32000,"+v.id+") unreachable", "cannot be reached now", "Retry-After", "1")
			}
		}
		network.Refuse("other", false)
		kit.Elapse(time.Second)
		w.answers(w.request(http.MethodPost, kit.Ping, "Mcp-Session-Id", other))
		w.lives()
	}},
	{"a notification, an answer and a DELETE are refused where the process that owns the session is lost meanwhile", func(t *testing.T) {
		for _, v := range sessionVerbs {
			w, _, network, other := newClusterWorld(t, kit.Batches)
			w.answers(w.request(http.MethodPost, kit.Ping, "Mcp-Session-Id", other))
			network.Hang("other", true)
			req := w.request(v.method, v.body, "Mcp-Session-Id", other)
			switch v.name {
			case "a request", "a batch":
				body, res := w.ends(req)
				require.Equal(t, http.StatusOK, res.StatusCode)
				require.Contains(t, body, `"data":{"reason":"owner_lost"}}`)
			case "a GET":
			default:
				body, res := w.ends(req)
				require.Equal(t, "503 error(-32000,"+v.id+") owner_lost", kit.Refusal(t, body, res))
				requireError(t, body, "the message may have reached it")
				kit.RequireHead(t, res.Header, "Content-Type", "application/json", "Retry-After", "1")
			}
			network.Hang("other", false)
			w.lives()
		}
	}},
	{"an answer of something between two processes is not passed on, but for what is about the client itself", func(t *testing.T) {
		w, _, network, other := newClusterWorld(t, kit.Batches)
		answer := func(status int) {
			network.CloseIdle()
			network.Serve("other", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				h := w.Header()
				h.Set("Www-Authenticate", "Bearer")
				h.Set("Retry-After", "7")
				h.Set("X-Other", "1")
				h.Set("Content-Type", "text/plain")
				w.WriteHeader(status)
				_, _ = w.Write([]byte("no"))
			}))
		}
		for _, status := range []int{200, 204, 302, 404, 421, 500, 502} {
			answer(status)
			body, res := w.ends(w.request(http.MethodPost, kit.Ping, "Mcp-Session-Id", other))
			require.Equal(t, `503 error(-32000,"mine")`, kit.Refusal(t, body, res))
			requireError(t, body, "something in between")
			kit.RequireHead(t, res.Header, "Content-Type", "application/json", "Retry-After", "1")
		}
		for _, status := range []int{401, 403, 429} {
			answer(status)
			body, res := w.ends(w.request(http.MethodPost, kit.Ping, "Mcp-Session-Id", other))
			require.Equal(t, status, res.StatusCode)
			require.Equal(t, "no", body)
			kit.RequireHead(t, res.Header, "Content-Type", "text/plain", "Www-Authenticate", "Bearer", "Retry-After", "7")
		}
		w.lives()
	}},
	{"a client cannot forward a request itself: it gets 421", func(t *testing.T) {
		w, _, _, other := newClusterWorld(t, kit.Batches)
		for _, id := range []string{other, ""} {
			for _, value := range []string{"x", "x; probe", "x; by=http%3A%2F%2Fevil; no-flush; left=1"} {
				for _, v := range sessionVerbs {
					header := []string{"Rejoin-Forwarded", value}
					if id != "" {
						header = append(header, "Mcp-Session-Id", id)
					}
					res := w.c.Do(w.request(v.method, v.body, header...))
					require.Equal(t, http.StatusMisdirectedRequest, res.StatusCode)
					require.NotEmpty(t, res.Header.Get("Rejoin-Answered"))
					body, _ := kit.ReadAll(t, res)
					requireError(t, body, "does not own the session")
				}
			}
		}
		w.lives()
	}},
	{"too many unknown session ids are refused with 503 and Retry-After", func(t *testing.T) {
		w, _, _, _ := newClusterWorld(t, kit.Batches)
		kit.Elapse(time.Minute) // the engine has lost nothing for so long
		for range 1000 {
			body, res := w.ends(w.request(http.MethodPost, kit.Ping, "Mcp-Session-Id", rand.Text()))
			require.Equal(t, http.StatusNotFound, res.StatusCode, body)
		}
		w.refuses(w.request(http.MethodPost, kit.Ping, "Mcp-Session-Id", rand.Text()), `503 error(-32000,"mine")`, "too many unknown session ids", "Retry-After", "1")
		w.lives()
		kit.Elapse(10 * time.Millisecond)
		w.refuses(w.request(http.MethodPost, kit.Ping, "Mcp-Session-Id", rand.Text()), "404 error(-32001,null)", "no such session")
	}},
	{"a task that another process has let go is refused with 503 and Retry-After where there is no room", func(t *testing.T) {
		engine := cluster.NewMemory(eventstore.MemoryConfig{})
		network := kit.NewNetwork(t)
		config := func(name string, most int) rejoin.Config {
			return rejoin.Config{
				Eras: rejoin.EraBoth, Policy: rejoin.Policy{TaskAfter: time.Second}, Tasks: rejoin.Tasks{Max: most}, Logger: kit.QuietLogger(), Store: engine,
				Cluster: &rejoin.Cluster{Name: "rows", Self: "http://" + name, Transport: network.Transport(name)},
			}
		}
		app, _ := kit.ManualTools()
		s := kit.NewServer(t, app, config("other", 10))
		network.Serve("other", stdadapter.New(s))
		w := newWorld(t, rejointest.Config{Server: config("own", 1)})
		synctest.Wait() // both join
		var ids [2]string
		for i := range ids {
			res := kit.Serve(s, w.modernCall("tools/call", "x", `,"name":"x"`, nil, []string{capabilitiesMember, takesTasks}))
			kit.Elapse(time.Second)
			synctest.Wait()
			_, id, _ := strings.Cut(res.Body.String(), `"taskId":"`)
			ids[i], _, _ = strings.Cut(id, `"`)
		}
		s.Close()
		synctest.Wait()
		w.answers(w.ofTask("tasks/get", ids[0], "", nil, nil))
		w.refuses(w.ofTask("tasks/get", ids[1], "", nil, nil), `503 error(-32000,"mine")`, "too many tasks", "Retry-After", "1")
	}},
	{"no session is opened where Cluster.Self is the address of another process", func(t *testing.T) {
		w, _, network, _ := newClusterWorld(t, kit.Batches)
		app, _ := kit.ManualTools()
		store := cluster.NewMemory(eventstore.MemoryConfig{})
		s := kit.NewServer(t, app, rejoin.Config{
			Store: store, Cluster: &rejoin.Cluster{Name: "rows", Self: "http://own", Transport: network.Transport("third")}, Logger: kit.QuietLogger(),
		})
		synctest.Wait()
		_, refused := kit.Open(t, s)
		require.Empty(t, refused, "it finds out by the first")
		kit.Elapse(time.Second)
		_, refused = kit.Open(t, s)
		require.Equal(t, `503 error(-32000,"mine") ended`, refused)
		refusedWith.Store("Cluster.Self of this process is the address of another one", true)
		w.lives()
	}},
	{"a session is refused with 503 and Retry-After while the engine cannot say whose it is, and so is a new one", func(t *testing.T) {
		w, link, _, other := newClusterWorld(t, kit.Batches)
		link.SetLink(clustertest.Refused)
		for _, id := range []string{other, strings.Repeat("A", 26)} {
			for _, v := range sessionVerbs {
				if v.method != http.MethodGet {
					w.refuses(w.request(v.method, v.body, "Mcp-Session-Id", id), "503 error(-32000,"+v.id+")", "cannot be reached now", "Retry-After", "1")
				}
			}
		}
		kit.Elapse(time.Minute)
		w.refuses(w.request(http.MethodPost, kit.Initialize, "Mcp-Session-Id", ""), `503 error(-32000,"mine")`, "cannot be reached now", "Retry-After", "1")
		link.SetLink(clustertest.Up)
		kit.Elapse(time.Minute)
		w.lives()
	}},
	{"a GET for such a session is a stream that ends at once, at the client's own position", func(t *testing.T) {
		w, link, network, other := newClusterWorld(t, "")
		for _, away := range []bool{false, true} {
			network.Refuse("other", true)
			if away {
				link.SetLink(clustertest.Refused)
			}
			body, res := kit.ReadAll(t, w.c.Do(w.get("Mcp-Session-Id", other)))
			require.Equal(t, http.StatusOK, res.StatusCode)
			require.Regexp(t, `^id: none\.0\.[0-9a-z]+\nretry: 1[012]\d\d\ndata: \n\nretry: 1[012]\d\d\n\n$`, body)
			body, _ = kit.ReadAll(t, w.c.Do(w.get("Mcp-Session-Id", other, "Last-Event-ID", "none.0.x")))
			require.Regexp(t, `^id: none\.0\.[0-9a-z]+\n`, body, "sent back it means no cursor")
			body, res = kit.ReadAll(t, w.c.Do(w.get("Mcp-Session-Id", other, "Last-Event-ID", "garbage")))
			require.Equal(t, http.StatusBadRequest, res.StatusCode, body)
		}
		link.SetLink(clustertest.Up)
		w.lives()
	}},
}
