package wire_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// stubborn is a client of a server whose tools ignore the end of their contexts until release.
func stubborn(t *testing.T, cfg rejoin.Config) (w *rowWorld, release func()) {
	t.Helper()
	gate := make(chan struct{})
	app := &kit.Fake{OnRequest: func(c *rejoin.Call) {
		if c.Method() == "initialize" || c.Method() == "ping" {
			kit.Accept(c)
			return
		}
		go func() {
			<-gate
			kit.Accept(c)
		}()
	}}
	modern := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { <-gate; w.WriteHeader(http.StatusTeapot) })
	counted := &countedOpens{App: kit.BothEras{Fake: app, Handler: modern}}
	w = &rowWorld{t: t, c: rejointest.New(t, counted, rejointest.Config{Server: cfg}), opened: &counted.n, seen: map[string]bool{}}
	return w, func() { close(gate); synctest.Wait() }
}

// opens checks that a request opens a session.
func (w *rowWorld) opens(req *http.Request) {
	w.t.Helper()
	body, res := w.ends(req)
	require.Equal(w.t, "result", kit.MessageSummary(body))
	require.NotEmpty(w.t, res.Header.Get("Mcp-Session-Id"))
}

const (
	stillWorkedOn = "are still being worked on (Config.MaxConcurrent)"
	overworked    = "are still being worked on (Config.MaxSessions)"
)

// Limits: what is too much, and how it is refused.
var boundRows = []row{
	{"initialize over 64 KiB is refused with 413, whatever it is that is long", func(t *testing.T) {
		w := newWorld(t, rejointest.Config{})
		fits := func(body string, size int, pad string) string {
			return strings.Replace(body, "#", strings.Repeat(pad, size-len(body)+1), 1)
		}
		for _, body := range []string{
			strings.Replace(kit.Initialize, `"params":{`, `"params":{"x":"#",`, 1),
			strings.Replace(kit.Initialize, `{`, `{"x":"#",`, 1),
		} {
			w.refuses(w.request(http.MethodPost, fits(body, 64<<10+1, "x"), "Mcp-Session-Id", ""), `413 error(-32600,"mine")`, "64 KiB")
			w.opens(w.request(http.MethodPost, fits(body, 64<<10, "x"), "Mcp-Session-Id", ""))
		}
		w.refuses(w.request(http.MethodPost, fits(kit.Initialize+"#", 64<<10+1, " "), "Mcp-Session-Id", ""), `413 error(-32600,"mine")`, "64 KiB")
		w.answers(w.request(http.MethodPost, fits(strings.Replace(kit.Ping, `{`, `{"x":"#",`, 1), 1<<20, "x")))
		w.lives()
	}},
	{"a batch of more than 1,000 messages is refused with 400 as a whole, unread from there on", func(t *testing.T) {
		w := newWorld(t, rejointest.Config{Version: kit.Batches})
		batch := func(message string, n int) string {
			return "[" + strings.TrimSuffix(strings.Repeat(message+",", n), ",")
		}
		for _, message := range []string{aNotification, anAnswer, kit.Ping} {
			w.refuses(w.request(http.MethodPost, batch(message, 1001)+"]"), "400 error(-32600,null)", "more than 1000 messages")
			w.refuses(w.request(http.MethodPost, batch(message, 1001)+", and whatever"), "400 error(-32600,null)", "more than 1000 messages")
		}
		w.accepts(w.request(http.MethodPost, batch(aNotification, 1000)+"]"), http.StatusAccepted)
		w.lives()
	}},
	{"a batch is refused for its session or version before anything in it is looked at", func(t *testing.T) {
		w := newWorld(t, rejointest.Config{Version: kit.Batches, Server: rejoin.Config{Eras: rejoin.EraLegacy}})
		for _, body := range []string{"[", "[]", "[7", "[" + kit.Ping + "]", "[" + kit.ModernPing + "]"} {
			w.refuses(w.request(http.MethodPost, body, "Mcp-Session-Id", ""), "400 error(-32600,null)", "send initialize first")
			w.refuses(w.request(http.MethodPost, body, "Mcp-Session-Id", "nobody"), "404 error(-32001,null)", "send initialize")
			w.refuses(w.request(http.MethodPost, body, "Mcp-Protocol-Version", "1.0"), "400 error(-32600,null)", "unknown version")
			w.refuses(w.request(http.MethodPost, body, "Mcp-Protocol-Version", "2026-07-28"), "400 error(-32600,null)", unmodern)
		}
		w.refuses(w.request(http.MethodPost, "["), "400 error(-32700,null)", "not JSON")
		w.refuses(w.request(http.MethodPost, "[", "Content-Encoding", "gzip"), "415 error(-32600,null)", "Content-Encoding", "Accept-Encoding", "identity")
		w.lives()
	}},
	{"where four times MaxConcurrent handlers work on requests that have ended, the next is refused with 429 and its id; pings are answered", func(t *testing.T) {
		w, release := stubborn(t, rejoin.Config{MaxConcurrent: 2})
		for range 8 {
			call := w.c.Start("x", nil)
			synctest.Wait()
			call.Cancel("")
			synctest.Wait()
		}
		w.refuses(w.request(http.MethodPost, kit.CallBody(`"mine"`, "{}")), `429 error(-32000,"mine")`, stillWorkedOn, retryLater...)
		w.answers(w.request(http.MethodPost, kit.Ping))
		w.accepts(w.request(http.MethodPost, aNotification), http.StatusAccepted)
		require.Equal(t, "primer@0", w.streams(w.get()))
		release()
		w.answers(w.request(http.MethodPost, kit.CallBody(`"mine"`, "{}")))
	}},
	{"where MaxSessions handlers work on what has ended, in whatever session or era, initialize and modern requests are refused with 503", func(t *testing.T) {
		w, release := stubborn(t, rejoin.Config{MaxSessions: 3, Eras: rejoin.EraBoth})
		cancelled := w.c.Start("x", nil)
		synctest.Wait()
		cancelled.Cancel("")
		body, res := kit.Post(t, w.c, kit.Initialize, "Mcp-Session-Id", "")
		require.Equal(t, "result", kit.MessageSummary(body))
		other := res.Header.Get("Mcp-Session-Id")
		deleted := kit.Serve(w.c.Server(), kit.InSession(t, other, kit.CallBody("1", "{}")))
		w.accepts204(w.request(http.MethodDelete, "", "Mcp-Session-Id", other))
		require.Equal(t, "404 error(-32001,null) ended", deleted.Summary())
		ctx, cut := context.WithCancel(context.Background())
		gone := kit.Serve(w.c.Server(), kit.Request(t, http.MethodPost, kit.ModernPing).WithContext(ctx))
		cut()
		require.Equal(t, "open", gone.Summary())
		w.refuses(w.request(http.MethodPost, kit.Initialize, "Mcp-Session-Id", ""), `503 error(-32000,"mine")`, overworked, retryLater...)
		w.refuses(w.request(http.MethodPost, kit.ModernPing), `503 error(-32000,"mine")`, overworked, retryLater...)
		w.answers(w.request(http.MethodPost, kit.Ping))
		release()
		w.accepts(w.request(http.MethodPost, kit.ModernPing), http.StatusTeapot)
		w.opens(w.request(http.MethodPost, kit.Initialize, "Mcp-Session-Id", ""))
	}},
}
