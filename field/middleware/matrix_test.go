package middleware

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
)

// said has the log lines about a middleware through which nothing can be streamed.
var said = map[string][]string{
	whole: {"rejoin: a middleware's response writer cannot flush, so nothing can be streamed through it (said once)"},
	later: {"rejoin: a middleware holds back what is flushed through it: streams are closed at once, and their clients have to poll (said once)"},
}

// Behind every middleware and over every version of HTTP, each kind of request gets its answer, and events arrive as they are sent: the tool
// goes on only when the client has read the event before.
func TestZoo(t *testing.T) {
	var mu sync.Mutex
	var closing sync.WaitGroup
	defer closing.Wait()
	found := map[string][]string{}
	all := rows()
	t.Run("rows", func(t *testing.T) {
		for i, r := range all {
			for _, p := range protocols {
				t.Run(r.router+"/"+strings.ReplaceAll(r.middleware, "/", "-")+"/"+strings.ReplaceAll(p.name, "/", "-"), func(t *testing.T) {
					t.Parallel()
					g, lines := new(gates), new(logRecords)
					cfg := rejoin.Config{MaxBodyBytes: ownLimit, Logger: slog.New(lines)}
					if r.origin != "" {
						cfg.AllowedOrigins = []string{r.origin}
					}
					s, err := rejoin.NewServer(g.app(), cfg)
					require.NoError(t, err)
					t.Cleanup(s.Close)
					at := listen(t, r.mount(s), p.tls, &closing)
					var got [2]string
					for j, zip := range []bool{false, true} {
						c := &client{t: t, http: p.dial(at), url: at.URL + "/mcp", proto: p.proto, origin: r.origin, gzip: zip}
						c.initialize()
						got[j] = everything(t, c, r, g, fmt.Sprint(zip))
					}
					require.Equal(t, [2]string{r.plain, r.gzip}, got, "without and with Accept-Encoding: gzip")
					require.Equal(t, said[r.plain], lines.all(), "exactly one line names it")
					mu.Lock()
					defer mu.Unlock()
					found[fmt.Sprint(i)] = append(found[fmt.Sprint(i)], p.name+": "+got[0]+" / "+got[1])
				})
			}
		}
	})
	for i, r := range all {
		t.Logf("%-8s %-28s %s", r.router, r.middleware, strings.Join(found[fmt.Sprint(i)], "   "))
	}
}

// everything sends each kind of request in one session. It returns how streams arrived.
func everything(t *testing.T, c *client, r row, g *gates, key string) string {
	a := c.call("plain", "")
	require.Equal(t, http.StatusOK, a.StatusCode)
	require.Equal(t, "application/json", a.Header.Get("Content-Type"))
	require.Equal(t, `"done"`, shape(t, a.whole()), "a quick answer is plain JSON")

	refusals(t, c, r)

	var how string
	switch r.plain {
	case whole:
		how = buffered(t, c, g, key)
	case later:
		how = byPolls(t, c, g, key)
	default:
		how = eventByEvent(t, c, g, key)
		closesStream(t, c, g, key)
		standalone(t, c)
	}

	require.Equal(t, http.StatusNoContent, c.status(c.send(http.MethodDelete, nil)))
	a = c.send(http.MethodDelete, nil)
	require.Equal(t, http.StatusNotFound, a.StatusCode)
	require.Equal(t, "error(-32001)", shape(t, a.whole()), "a refusal keeps its body")
	return how
}

// eventByEvent calls a tool that waits after each event until the client has read it.
func eventByEvent(t *testing.T, c *client, g *gates, key string) string {
	a := c.call("steps", key)
	require.Equal(t, http.StatusOK, a.StatusCode)
	require.True(t, a.streams(), a.Header)
	require.Equal(t, "no-cache, no-transform", a.Header.Get("Cache-Control"))
	require.Equal(t, "no", a.Header.Get("X-Accel-Buffering"))
	require.Equal(t, "primer", a.next())
	for i, name := range []string{"a", "b", "c"} {
		require.Equal(t, fmt.Sprint(i+1), a.next())
		g.open(key + name)
	}
	require.Equal(t, `"done"`, a.next())
	require.Equal(t, "end", a.next())
	if a.zipped {
		return zipped
	}
	return stream
}

// closesStream calls a tool that closes its stream, and resumes the call.
func closesStream(t *testing.T, c *client, g *gates, key string) {
	a := c.call("close", key)
	require.Equal(t, "primer 1 retry end", a.rest())
	g.open(key) // only now does the tool go on
	b := c.poll(a.last)
	require.Equal(t, http.StatusOK, b.StatusCode)
	require.Equal(t, `primer 2 "done" end`, b.rest())
	b = c.poll(b.last)
	require.Equal(t, http.StatusNoContent, c.status(b), "nothing is left")
}

// standalone reads one notification from the standalone stream.
func standalone(t *testing.T, c *client) {
	a := c.send(http.MethodGet, nil)
	defer a.cut()
	require.Equal(t, http.StatusOK, a.StatusCode)
	require.Equal(t, "primer", a.next())
	require.Equal(t, `"done"`, shape(t, c.call("notify", "").whole()))
	require.Equal(t, "notifications/x", a.next())
}

// buffered makes the calls behind a middleware that buffers responses, where nothing can be streamed.
func buffered(t *testing.T, c *client, g *gates, key string) string {
	for _, name := range []string{"a", "b", "c"} {
		g.open(key + name)
	}
	a := c.call("steps", key)
	require.Equal(t, http.StatusOK, a.StatusCode)
	require.Equal(t, "application/json", a.Header.Get("Content-Type"))
	require.Equal(t, `"done"`, shape(t, a.whole()))
	a = c.call("close", key)
	require.Equal(t, "primer retry end", a.rest(), "that needs no flush")
	g.open(key)
	for a = c.poll(a.last); ; a = c.poll(a.last) {
		if rest := a.rest(); strings.Contains(rest, "done") {
			require.Contains(t, []string{`primer 2 "done" end`, `primer "done" end`}, rest)
			break
		}
	}
	a = c.send(http.MethodGet, nil)
	require.Equal(t, http.StatusMethodNotAllowed, a.StatusCode)
	require.Equal(t, "error(-32600)", shape(t, a.whole()))
	return whole
}

// byPolls makes the calls behind a middleware where each stream is closed at once and polled. The tool still goes on only when the client has
// read the event before.
func byPolls(t *testing.T, c *client, g *gates, key string) string {
	var seen []string
	for a := c.call("steps", key); ; a = c.poll(a.last) {
		require.Equal(t, http.StatusOK, a.StatusCode)
		events := strings.Fields(a.rest())
		require.Equal(t, "primer", events[0])
		for _, event := range events {
			switch event {
			case "1", "2", "3":
				g.open(key + map[string]string{"1": "a", "2": "b", "3": "c"}[event])
				seen = append(seen, event)
			case `"done"`:
				seen = append(seen, event)
			}
		}
		if slices.Contains(events, `"done"`) {
			break
		}
		require.Equal(t, []string{"retry", "end"}, events[len(events)-2:])
	}
	require.Equal(t, []string{"1", "2", "3", `"done"`}, seen)
	a := c.send(http.MethodGet, nil)
	require.Equal(t, "primer retry end", a.rest())
	require.Equal(t, `"done"`, shape(t, c.call("notify", "").whole()))
	require.Equal(t, "primer notifications/x retry end", c.poll(a.last).rest())
	return later
}

// refusals checks that refusals keep their status and their body.
func refusals(t *testing.T, c *client, r row) {
	a := c.post(`{"jsonrpc":`)
	require.Equal(t, http.StatusBadRequest, a.StatusCode)
	require.Equal(t, "application/json", a.Header.Get("Content-Type"))
	require.Equal(t, "error(-32700)", shape(t, a.whole()))

	limit := ownLimit
	if r.limit > 0 {
		limit = r.limit
	}
	body := `{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"plain","arguments":{"key":"` + strings.Repeat("x", limit) + `"}}}`
	for _, chunks := range []bool{false, true} {
		var src io.Reader = strings.NewReader(body)
		if chunks {
			src = struct{ io.Reader }{src} // its length is unknown
		}
		a = c.send(http.MethodPost, src)
		require.Equal(t, http.StatusRequestEntityTooLarge, a.StatusCode, "in chunks: %v", chunks)
		require.NotEmpty(t, a.whole())
	}
}
