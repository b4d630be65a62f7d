package lifetime_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// Ten thousand sessions, the default maximum, fit into a gibibyte. Each has called tools whose streams are kept; one in four has a parked call,
// and one in four reads the standalone stream over a connection of its own, with all that net/http needs for that.
func TestTenThousandSessionsInAGibibyte(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		const sessions, most = 10_000 / min(kit.Fewer, 10), (1 << 30) / min(kit.Fewer, 10)
		s := kit.NewServer(t, busyApp{}, rejoin.Config{KeepAlive: -1, Logger: kit.QuietLogger()})
		lis := &kit.Pipes{Conns: make(chan net.Conn), Closed: make(chan struct{})}
		hs := &http.Server{Handler: http.HandlerFunc(s.Serve)}
		served := make(chan error, 1)
		go func() { served <- hs.Serve(lis) }()
		resting := len(kit.Goroutines())
		base := kit.MemoryInUse()
		var ids []string
		var conns []net.Conn
		parked := 0
		for i := range sessions {
			id, status := kit.OpenNow(t, s, kit.Initialize)
			require.Equal(t, http.StatusOK, status)
			ids = append(ids, id)
			require.Equal(t, http.StatusAccepted, kit.ServeNow(s, kit.InSession(t, id, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)).Status)
			call := func(n int, method string) {
				w := kit.ServeNow(s, kit.InSession(t, id, `{"jsonrpc":"2.0","id":`+strconv.Itoa(n)+`,"method":"`+method+`"}`))
				require.Contains(t, w.Body.String(), "retry: ")
			}
			for n := range 4 {
				call(n, "told")
			}
			switch i % 4 {
			case 0:
				call(9, "park")
				parked++
			case 1:
				conns = append(conns, listen(t, lis, id))
			}
		}
		held := kit.MemoryInUse() - base
		stats := s.Stats()
		t.Logf("%d MiB in all, %d KiB for each session, %d goroutines", held>>20, held/sessions>>10, len(conns)*2)
		require.Less(t, held, uint64(most))
		require.EqualValues(t, sessions, stats.Sessions)
		require.EqualValues(t, parked, stats.Parked)
		require.EqualValues(t, len(conns), stats.Connections)
		require.Zero(t, stats.Evicted, "nothing had to go for it")
		for i, conn := range conns[:100] { // they still work
			require.Equal(t, http.StatusOK, kit.ServeNow(s, kit.InSession(t, ids[1+4*i], kit.Ping)).Status)
			r := kit.InSession(t, ids[1+4*i], `{"jsonrpc":"2.0","id":"now","method":"aside"}`)
			go func() { _ = kit.ServeNow(s, r) }()
			require.Contains(t, hear(t, conn), `"method":"notifications/aside"`)
		}
		for _, conn := range conns {
			_ = conn.Close()
		}
		for _, id := range ids {
			kit.DeleteNow(t, s, id)
		}
		require.Zero(t, s.Stats().Sessions+s.Stats().StoredBytes)
		require.NoError(t, hs.Close())
		require.ErrorIs(t, <-served, http.ErrServerClosed)
		kit.RequireRested(t, resting)
	})
}

// listen requests the standalone stream over a connection, without a goroutine on the client's side, and reads its beginning.
func listen(t *testing.T, lis *kit.Pipes, session string) net.Conn {
	t.Helper()
	conn := lis.Dial()
	_, err := fmt.Fprintf(conn, "GET /mcp HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\nMcp-Session-Id: %s\r\n\r\n", session)
	require.NoError(t, err)
	require.Contains(t, hear(t, conn), "retry: ")
	return conn
}

// hear reads to the end of an event.
func hear(t *testing.T, conn io.Reader) string {
	t.Helper()
	var all []byte
	for buf := make([]byte, 4096); !strings.HasSuffix(string(all), "\n\n\r\n"); {
		n, err := conn.Read(buf)
		require.NoError(t, err)
		all = append(all, buf[:n]...)
	}
	return string(all)
}

// busyApp closes the streams of its calls and leaves events to be fetched.
type busyApp struct{}

func (a busyApp) Open(_ *http.Request, s *rejoin.Session, _ []byte) (rejoin.AppSession, error) {
	return busySession{s}, nil
}

type busySession struct{ s *rejoin.Session }

func (a busySession) Request(c *rejoin.Call) {
	switch c.Method() {
	case "told":
		for i := range 3 {
			_ = c.Handle().Notify("notifications/x", map[string]int{"n": i})
		}
		_ = c.Handle().CloseStream(0)
		_ = c.Reply(json.RawMessage(`"` + strings.Repeat("x", 500) + `"`))
	case "park":
		_ = c.Handle().Notify("notifications/x", nil)
		_ = c.Handle().CloseStream(0)
		go func() { <-c.Context().Done() }()
	case "aside":
		_ = a.s.Notify(context.Background(), "notifications/aside", nil)
		kit.Accept(c)
	default:
		kit.Accept(c)
	}
}

func (busySession) Notification(*rejoin.Notification) {}
func (busySession) Ended(error)                       {}
