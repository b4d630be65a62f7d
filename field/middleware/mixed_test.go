package middleware

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

// The middleware of two processes may differ, for example while a new version is rolled out. Behind whichever process a client is, each call ends, and
// brings its events in order and once.
func TestProcessesWithDifferentMiddleware(t *testing.T) {
	var closing sync.WaitGroup
	defer closing.Wait()
	t.Run("rows", func(t *testing.T) {
		for _, r := range rows() {
			if r.middleware == "none" || r.plain == stream && r.gzip == stream {
				continue
			}
			for _, p := range protocols[1:3] {
				t.Run(r.router+"/"+strings.ReplaceAll(r.middleware, "/", "-")+"/"+strings.ReplaceAll(p.name, "/", "-"), func(t *testing.T) {
					t.Parallel()
					different(t, r, p, &closing)
				})
			}
		}
	})
}

func different(t *testing.T, r row, p protocol, closing *sync.WaitGroup) {
	g := new(gates)
	cfg := rejoin.Config{Store: cluster.NewMemory(eventstore.MemoryConfig{})}
	bare := r
	bare.mount = onStdlib()
	var way inTurn
	for i, r := range []row{r, bare} {
		process := newProcess(t, r, cfg, g, nil, closing)
		at := listen(t, process.router, p.tls, closing)
		way.processes[i].RoundTripper = p.dial(at)
		var err error
		way.processes[i].at, err = url.Parse(at.URL)
		require.NoError(t, err)
	}
	for owner := range 2 {
		for first := range 2 {
			for _, zip := range []bool{false, true} {
				c := &client{t: t, http: &way, url: "http://process/mcp", proto: p.proto, gzip: zip}
				way.next = owner
				c.initialize()
				way.next += first
				key := fmt.Sprint(owner, first, zip)
				steps := func(event string) { // the tool goes on only when the client has read the event before
					if name := map[string]string{"1": "a", "2": "b", "3": "c"}[event]; name != "" {
						g.open(key + name)
					}
				}
				closes, all := []string{`1 2 "done"`}, []string{`1 2 3 "done"`}
				if r.plain == whole { // what a tool sends is dropped while it cannot be streamed
					closes, all = append(closes, `2 "done"`, `"done"`), append(all, `"done"`)
					steps("1")
					steps("2")
					steps("3")
					steps = func(string) {}
				}
				require.Contains(t, all, c.toEnd(c.call("steps", key), steps))
				opened := false
				require.Contains(t, closes, c.toEnd(c.call("close", key), func(event string) {
					if event == "end" && !opened {
						opened = true
						g.open(key)
					}
				}))
				require.Equal(t, http.StatusNoContent, c.status(c.send(http.MethodDelete, nil)))
			}
		}
	}
}

// toEnd reads the answer to a call, and polls until the response has come. It returns the messages. saw is called for each event, as next returns it.
func (c *client) toEnd(a *answer, saw func(event string)) string {
	c.t.Helper()
	var seen []string
	for ; ; a = c.poll(a.last) {
		require.Equal(c.t, http.StatusOK, a.StatusCode)
		if !a.streams() {
			return strings.Join(append(seen, shape(c.t, a.whole())), " ")
		}
		for event := ""; event != "end"; {
			event = a.next()
			if saw(event); event != "primer" && event != "retry" && event != "end" {
				seen = append(seen, event)
			}
		}
		if len(seen) > 0 && seen[len(seen)-1] == `"done"` {
			return strings.Join(seen, " ")
		}
	}
}
