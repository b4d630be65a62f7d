package door_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// A body that comes byte by byte keeps its connection for as long as http.Server.ReadTimeout allows, which is for ever if it is not set. It uses
// memory only for the bytes that have come, whatever its Content-Length is.
func TestBodiesThatDripForHours(t *testing.T) {
	const drips, claimed = 500, 4 << 20
	for name, timeout := range map[string]time.Duration{"no ReadTimeout": 0, "a ReadTimeout": 10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				app, next := kit.ManualTools()
				lis := &kit.Pipes{Conns: make(chan net.Conn), Closed: make(chan struct{})}
				c := rejointest.New(t, app, rejointest.Config{Server: rejoin.Config{SessionIdleTTL: -1}})
				s := c.Server()
				hs := &http.Server{Handler: http.HandlerFunc(s.Serve), ReadTimeout: timeout}
				served := make(chan error, 1)
				go func() { served <- hs.Serve(lis) }()
				resting, before, base := len(kit.Goroutines()), s.Stats(), kit.MemoryInUse()
				var answers atomic.Int64
				var conns []net.Conn
				for range drips {
					conn := lis.Dial()
					conns = append(conns, conn)
					_, err := fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", claimed)
					require.NoError(t, err)
					go func() { // reads the answers of the server
						b, _ := io.ReadAll(conn)
						if strings.Contains(string(b), " 400 ") {
							answers.Add(1)
						}
					}()
				}
				drip := func() {
					for _, conn := range conns {
						_, _ = io.WriteString(conn, " ")
					}
				}
				drip()
				synctest.Wait()
				held := int64(kit.MemoryInUse()) - int64(base)
				t.Logf("%d KiB for each", held/drips>>10)
				require.Less(t, held, int64(drips*(160<<10)), "it is not given 4 MiB for having asked")
				for range 20 {
					kit.Elapse(6 * time.Minute)
					if timeout == 0 {
						drip()
					}
				}
				call := c.CallTool("x", nil)
				next().Returns("done")
				require.Equal(t, `"done"`, string(call.Result()), "others are served")
				after := s.Stats()
				switch timeout {
				case 0:
					require.Equal(t, before, after, "they wait, and nothing is known of them")
				default:
					require.EqualValues(t, drips, after.Refused-before.Refused)
					require.EqualValues(t, drips, answers.Load(), "they are told why")
				}
				for _, conn := range conns {
					_ = conn.Close()
				}
				kit.Elapse(time.Minute)
				require.EqualValues(t, drips, s.Stats().Refused-before.Refused)
				kit.RequireRested(t, resting)
				require.NoError(t, hs.Close())
				require.ErrorIs(t, <-served, http.ErrServerClosed)
			})
		})
	}
}

// A header may have http.Server.MaxHeaderBytes, a mebibyte by default, and that of a POST at most 64 KiB. Within these limits each field is read
// once, and none is kept.
func TestHeaderFloods(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		c := rejointest.New(t, &kit.Fake{}, rejointest.Config{})
		repeat := func(name, value string, n int) http.Header {
			return http.Header{name: slices.Repeat([]string{value}, n)}
		}
		id := c.Do(kit.Request(t, http.MethodPost, kit.Initialize, "Mcp-Session-Id", "")).Header.Get("Mcp-Session-Id")
		resting, base := len(kit.Goroutines()), kit.HeapAlloc()
		for name, test := range map[string]struct {
			header http.Header
			want   int
		}{
			"1,500 lines":                 {repeat("X-Flood", "x", 1500), http.StatusOK},
			"10,000 lines":                {repeat("X-Flood", "x", 10_000), http.StatusRequestHeaderFieldsTooLarge},
			"a field of 60 kB":            {http.Header{"X-Flood": {strings.Repeat("x", 60_000)}}, http.StatusOK},
			"a field of 900 kB":           {http.Header{"X-Flood": {strings.Repeat("x", 900_000)}}, http.StatusRequestHeaderFieldsTooLarge},
			"two mebibytes":               {http.Header{"X-Flood": {strings.Repeat("x", 2<<20)}}, http.StatusRequestHeaderFieldsTooLarge},
			"many Accepts":                {repeat("Accept", "application/json, text/event-stream", 800), http.StatusOK},
			"an Accept of 6,000 ranges":   {http.Header{"Accept": {strings.Repeat("a/b;q=0.5,", 6_000) + "*/*"}}, http.StatusOK},
			"an Accept of parameters":     {http.Header{"Accept": {"text/html" + strings.Repeat(";a=b", 15_000) + ", */*"}}, http.StatusOK},
			"Accepts of nothing":          {repeat("Accept", "text/html", 1000), http.StatusNotAcceptable},
			"many Origins":                {repeat("Origin", "http://evil.example", 10_000), http.StatusForbidden},
			"many sessions":               {repeat("Mcp-Session-Id", id, 800), http.StatusOK},
			"too many sessions":           {repeat("Mcp-Session-Id", id, 10_000), http.StatusRequestHeaderFieldsTooLarge},
			"many sessions and one other": {http.Header{"Mcp-Session-Id": append(slices.Repeat([]string{id}, 800), "other")}, http.StatusBadRequest},
			"a session of 60 kB":          {http.Header{"Mcp-Session-Id": {strings.Repeat("x", 60_000)}}, http.StatusNotFound},
			"a version of 60 kB":          {http.Header{"Mcp-Protocol-Version": {strings.Repeat("x", 60_000)}}, http.StatusBadRequest},
			"a type of 60 kB":             {http.Header{"Content-Type": {"application/json" + strings.Repeat(";a=b", 15_000)}}, http.StatusOK},
		} {
			for range 3 {
				r := kit.Request(t, http.MethodPost, kit.Ping)
				r.Header.Set("Mcp-Session-Id", id)
				maps.Copy(r.Header, test.header)
				body, res := kit.ReadAll(t, c.Do(r))
				require.Equal(t, test.want, res.StatusCode, "%s: %s", name, body)
				require.Less(t, len(body), 1000, "%s: nothing of it is sent back", name)
			}
		}
		r := kit.Request(t, http.MethodGet, "", "Last-Event-ID", strings.Repeat("x", 900_000))
		body, res := kit.ReadAll(t, c.Do(r))
		require.Equal(t, "400 error(-32600,null) unknown", kit.Refusal(t, body, res))
		kit.Elapse(time.Minute)
		kit.RequireFlat(t, base, 4<<20, "floods of headers")
		kit.RequireRested(t, resting)
		require.Equal(t, `{}`, string(c.Start("ping", nil).Result()))
	})
}

// A batch is limited by MaxBodyBytes, by 1,000 messages and, if it has requests, by MaxConcurrent. If it exceeds a limit, none of it is started.
// Without MaxConcurrent all its requests are answered.
func TestBatchBombs(t *testing.T) {
	const members = 1_000
	batch := func(member string, n int) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(map[bool]string{true: "[", false: ","}[i == 0] + strings.ReplaceAll(member, "#", strconv.Itoa(i)))
		}
		return b.String() + "]"
	}
	oneRequest, notification := `{"jsonrpc":"2.0","id":#,"method":"x"}`, `{"jsonrpc":"2.0","method":"notifications/x"}`
	for _, most := range []int{0, -1} { // the default, 64, and no limit
		kit.Bubble(t, func(t *testing.T) {
			var started, told int
			s := kit.NewServer(t, &kit.Fake{
				OnRequest:      func(c *rejoin.Call) { started++; kit.Accept(c) },
				OnNotification: func(*rejoin.Notification) { told++ },
			}, rejoin.Config{MaxConcurrent: most})
			id, _ := kit.OpenNow(t, s, strings.Replace(kit.Initialize, kit.Polling, kit.Batches, 1))
			started = 0
			send := func(body string) *kit.Recorder { return kit.ServeNow(s, kit.InSession(t, id, body)) }
			resting, base := len(kit.Goroutines()), kit.HeapAlloc()
			for name, test := range map[string]struct {
				body    string
				status  int
				started int
				told    int
			}{
				"as many as may run":         {batch(oneRequest, 64), 200, 64, 0},
				"one more":                   {batch(oneRequest, 65), 429, 65, 0},
				"requests":                   {batch(oneRequest, members), 429, members, 0},
				"requests and notifications": {batch(oneRequest+","+notification, members/2), 429, members / 2, members / 2},
				"notifications":              {batch(notification, members), 202, 0, members},
				"answers":                    {batch(`{"jsonrpc":"2.0","id":#,"result":{}}`, members), 202, 0, 0},
				"cancels":                    {batch(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":#}}`, members), 202, 0, 0},
				"one id":                     {batch(strings.Replace(oneRequest, "#", "7", 1), members), 429, 0, 0},
				"nothing":                    {batch("0", members), 400, 0, 0},
				"one message too many":       {batch(notification, members+1), 400, 0, 0},
				"far too many":               {batch(notification, 50*members), 400, 0, 0},
			} {
				if most < 0 && test.status == 429 {
					test.status = 200
					if name == "one id" {
						test.status = 400
					}
				}
				if test.status == 429 {
					test.started, test.told = 0, 0
				}
				started, told = 0, 0
				w := send(test.body)
				require.Equal(t, test.status, w.Status, "%s: %.300s", name, w.Body.String())
				require.Equal(t, test.started, started, name)
				require.Equal(t, test.told, told, name)
				if test.status == 200 {
					require.Equal(t, test.started, strings.Count(w.Body.String(), `"result"`), name)
				} else {
					require.Less(t, w.Body.Len(), 1000, name)
				}
			}
			kit.RequireFlat(t, base, 4<<20, "bombs")
			require.EqualValues(t, 1, s.Stats().Streams)
			require.Equal(t, "result", kit.MessageSummary(send(kit.Ping).Body.String()))
			kit.RequireRested(t, resting)
		})
	}
}

// Calls keep their header while they run, with and without a connection. All calls of a session use only a few megabytes with the largest header
// that is accepted, and the refusal of a larger one has the id of its request.
func TestWhatWaitingCallsKeepOfTheirHeaders(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		calls := []*rejoin.Call{}
		s := kit.NewServer(t, &kit.Fake{OnRequest: func(c *rejoin.Call) {
			if c.Method() == "initialize" {
				kit.Accept(c)
				return
			}
			calls = append(calls, c)
		}}, rejoin.Config{})
		id, _ := kit.OpenNow(t, s, kit.Initialize)
		send := func(n, fields int) *kit.Response {
			r := kit.InSession(t, id, kit.CallBody(strconv.Itoa(n), `{}`))
			for i := range fields {
				r.Header[fmt.Sprintf("X%d-%d", n, i)] = []string{""}
			}
			ctx, leave := context.WithCancel(r.Context())
			w := kit.Serve(s, r.WithContext(ctx))
			leave()
			synctest.Wait()
			return w
		}
		measure := func(from, fields int) uint64 {
			base := kit.HeapAlloc()
			for n := range 32 {
				send(from+n, fields)
			}
			return kit.HeapAlloc() - base
		}
		honest, hostile := measure(0, 10), measure(100, 1600)
		require.Len(t, calls, 64)
		t.Logf("32 calls keep %d KiB, with large headers %d KiB", honest>>10, hostile>>10)
		require.Less(t, hostile, uint64(16<<20))
		w := send(7000, 160_000)
		require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, w.Status)
		require.Contains(t, w.Body.String(), `"id":7000,"error":{"code":-32600,"message":"the header is larger than 64 KiB`)
		require.Len(t, calls, 64, "it is refused before it costs anything")
		for _, c := range calls {
			kit.Accept(c)
		}
	})
}

// A notification that an app keeps, because its handler is busy, keeps only its own bytes: not the white space nor the other messages of its
// body.
func TestANotificationDoesNotKeepItsBody(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		var kept []*rejoin.Notification
		s := kit.NewServer(t, &kit.Fake{OnNotification: func(n *rejoin.Notification) { kept = append(kept, n) }}, rejoin.Config{})
		const small, space = `{"jsonrpc":"2.0","method":"notifications/x","params":{"a":"b"}}`, 1 << 20
		for version, body := range map[string]string{
			kit.Polling: strings.Repeat(" ", space) + small + strings.Repeat(" ", space),
			kit.Batches: "[" + small + `,{"jsonrpc":"2.0","id":1,"result":"` + strings.Repeat("x", 2*space) + `"}]`,
		} {
			id, _ := kit.OpenNow(t, s, strings.Replace(kit.Initialize, kit.Polling, version, 1))
			kept = nil
			base := kit.HeapAlloc()
			for range 64 {
				require.Equal(t, http.StatusAccepted, kit.ServeNow(s, kit.InSession(t, id, body)).Status)
			}
			kit.RequireFlat(t, base, 4<<20, "64 notifications from bodies of 2 MiB")
			require.Len(t, kept, 64)
			for _, n := range kept {
				require.JSONEq(t, small, string(n.Raw()))
				require.JSONEq(t, `{"a":"b"}`, string(n.Params()))
				require.Equal(t, "notifications/x", n.Method())
			}
		}
	})
}
