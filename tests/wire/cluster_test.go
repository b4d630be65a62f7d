package wire_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// newClusterWorld is a world whose server is in a cluster with another one. The session of the client is at the server; other is the session id of one
// that is at the other server.
func newClusterWorld(t *testing.T, version string) (w *rowWorld, link *clustertest.Faulty, other string) {
	t.Helper()
	engine := cluster.NewMemory(eventstore.MemoryConfig{})
	link = clustertest.NewFaulty(engine, engine, nil)
	config := func(self string, store eventstore.Store) rejoin.Config {
		return rejoin.Config{Store: store, Cluster: &rejoin.Cluster{Name: "rows", Self: self}, Logger: kit.QuietLogger(), StoreTimeout: time.Second}
	}
	app, _ := kit.ManualTools()
	s := kit.NewServer(t, app, config("http://other", engine))
	t.Cleanup(s.Close)
	synctest.Wait() // it joins
	other = kit.OpenReady(t, s)
	w = newWorld(t, rejointest.Config{Version: version, Server: config("http://own", link), Handler: func(s *rejoin.Server) http.Handler {
		synctest.Wait()
		return http.HandlerFunc(s.Serve)
	}})
	return w, link, other
}

// Sessions that several processes serve.
var clusterRows = []row{
	{"a session of another process that is alive is refused with 503 and Retry-After", func(t *testing.T) {
		w, _, other := newClusterWorld(t, kit.Batches)
		for _, v := range sessionVerbs {
			if v.method != http.MethodGet {
				w.refuses(w.request(v.method, v.body, "Mcp-Session-Id", other), "503 error(-32000,"+v.id+")", "another process serves this session", "Retry-After", "1")
			}
		}
		w.lives()
	}},
	{"a session is refused with 503 and Retry-After while the engine cannot say whose it is, and so is a new one", func(t *testing.T) {
		w, link, other := newClusterWorld(t, kit.Batches)
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
		w, link, other := newClusterWorld(t, "")
		for _, away := range []bool{false, true} {
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
