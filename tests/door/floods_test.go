package door_test

import (
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

// Bodies that come byte by byte hold their own connections, for as long as http.Server.ReadTimeout lets them, which is for ever where it is not
// set; and of memory what has come, whatever length they claim.
func TestBodiesThatDripForHours(t *testing.T) {
	const drips, claimed = 500, 4 << 20
	for name, timeout := range map[string]time.Duration{"no ReadTimeout": 0, "a ReadTimeout": 10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				app, next := kit.Puppets()
				lis := &kit.Pipes{Conns: make(chan net.Conn), Closed: make(chan struct{})}
				c := rejointest.New(t, app, rejointest.Config{Server: rejoin.Config{SessionIdleTTL: -1}})
				s := c.Server()
				hs := &http.Server{Handler: http.HandlerFunc(s.Serve), ReadTimeout: timeout}
				served := make(chan error, 1)
				go func() { served <- hs.Serve(lis) }()
				resting, before, base := len(kit.Goroutines()), s.Stats(), kit.InUse()
				var answers atomic.Int64
				var conns []net.Conn
				for range drips {
					conn := lis.Dial()
					conns = append(conns, conn)
					_, err := fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", claimed)
					require.NoError(t, err)
					go func() { // what the server says
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
				held := int64(kit.InUse()) - int64(base)
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

// A header is as large as http.Server.MaxHeaderBytes lets it be, a mebibyte by default. Up to there each field is looked at once, and no field
// stays.
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
			"10,000 lines":                 {repeat("X-Flood", "x", 10_000), http.StatusOK},
			"a field of 900 kB":            {http.Header{"X-Flood": {strings.Repeat("x", 900_000)}}, http.StatusOK},
			"two mebibytes":                {http.Header{"X-Flood": {strings.Repeat("x", 2<<20)}}, http.StatusRequestHeaderFieldsTooLarge},
			"many Accepts":                 {repeat("Accept", "application/json, text/event-stream", 10_000), http.StatusOK},
			"an Accept of 100,000 ranges":  {http.Header{"Accept": {strings.Repeat("a/b;q=0.5,", 90_000) + "*/*"}}, http.StatusOK},
			"an Accept of many parameters": {http.Header{"Accept": {"text/html" + strings.Repeat(";a=b", 200_000) + ", */*"}}, http.StatusOK},
			"Accepts of nothing":           {repeat("Accept", "text/html", 10_000), http.StatusNotAcceptable},
			"many Origins":                 {repeat("Origin", "http://evil.example", 10_000), http.StatusForbidden},
			"many sessions":                {repeat("Mcp-Session-Id", id, 10_000), http.StatusOK},
			"many sessions, and one other": {http.Header{"Mcp-Session-Id": append(slices.Repeat([]string{id}, 5000), "other")}, http.StatusBadRequest},
			"a session of 900 kB":          {http.Header{"Mcp-Session-Id": {strings.Repeat("x", 900_000)}}, http.StatusNotFound},
			"a version of 900 kB":          {http.Header{"Mcp-Protocol-Version": {strings.Repeat("x", 900_000)}}, http.StatusBadRequest},
			"a type of 900 kB":             {http.Header{"Content-Type": {"application/json" + strings.Repeat(";a=b", 200_000)}}, http.StatusOK},
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

// A batch is bounded by MaxBodyBytes and, where there are requests in it, by MaxConcurrent: of one that is too large nothing is started. Where
// that is off all are answered.
func TestBatchBombs(t *testing.T) {
	const members = 10_000 / min(kit.Fewer, 20)
	batch := func(member string, n int) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(map[bool]string{true: "[", false: ","}[i == 0] + strings.ReplaceAll(member, "#", strconv.Itoa(i)))
		}
		return b.String() + "]"
	}
	oneRequest, notification := `{"jsonrpc":"2.0","id":#,"method":"x"}`, `{"jsonrpc":"2.0","method":"notifications/x"}`
	for _, most := range []int{0, -1} { // 64, any number
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
				"requests and notifications": {batch(oneRequest+","+notification, members), 429, members, members},
				"notifications":              {batch(notification, members), 202, 0, members},
				"answers":                    {batch(`{"jsonrpc":"2.0","id":#,"result":{}}`, members), 202, 0, 0},
				"cancels":                    {batch(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":#}}`, members), 202, 0, 0},
				"one id":                     {batch(strings.Replace(oneRequest, "#", "7", 1), members), 429, 0, 0},
				"nothing":                    {batch("0", members), 400, 0, 0},
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
			require.Equal(t, "result", kit.Shape(send(kit.Ping).Body.String()))
			kit.RequireRested(t, resting)
		})
	}
}
