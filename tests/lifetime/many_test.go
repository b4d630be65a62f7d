package lifetime_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// Clients often do not delete their sessions. In whatever state they leave them, nothing is left after their time: no session, stream, connection,
// call or goroutine, no byte in the store, no memory.
func TestTenThousandSessionsThatWereLeft(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		const n = 10_000 // the default of MaxSessions
		var mu sync.Mutex
		ended, cancelled := 0, map[error]int{}
		app := &leftApp{ended: func() {
			mu.Lock()
			defer mu.Unlock()
			ended++
		}, cancelled: func(cause error) {
			mu.Lock()
			defer mu.Unlock()
			cancelled[cause]++
		}}
		store := eventstore.NewMemory(eventstore.MemoryConfig{})
		s := kit.NewServer(t, app, rejoin.Config{Store: store, Logger: kit.QuietLogger()})
		warm, _ := kit.Open(t, s)
		r := kit.InSession(t, warm, "")
		r.Method = http.MethodDelete
		require.Equal(t, "204 ended", kit.Serve(s, r).Summary())
		resting := len(kit.Goroutines())
		base := kit.HeapAlloc()

		waiting, leave := context.WithCancel(context.Background())
		for i := range n {
			leaveOne(waiting, t, s, i%5)
		}
		stats := s.Stats()
		require.EqualValues(t, n, stats.Sessions)
		require.EqualValues(t, n/5, stats.Parked)
		require.EqualValues(t, n/5, stats.Connections, "of those that wait for the answer to initialize")
		require.Positive(t, stats.StoredBytes)
		require.Greater(t, len(kit.Goroutines()), 100) // the text of the stacks has room for so many
		peak := kit.HeapAlloc()

		leave() // those clients have not even got a session
		synctest.Wait()
		require.EqualValues(t, n-n/5, s.Stats().Sessions)
		// Parked calls are abandoned after 10 minutes. All sessions expire after 30 minutes, or 30 minutes after that.
		kit.Elapse(29 * time.Minute)
		require.EqualValues(t, n-n/5, s.Stats().Sessions)
		require.Zero(t, s.Stats().Parked)
		kit.Elapse(12 * time.Minute)

		stats = s.Stats()
		require.Zero(t, stats.Sessions+stats.Streams+stats.Parked+stats.Connections+stats.StoredBytes)
		require.EqualValues(t, n/5, stats.Abandoned)
		running := kit.Goroutines()
		require.LessOrEqual(t, len(running), resting, strings.Join(running, "\n\n"))
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, n+1, ended)
		require.Equal(t, map[error]int{rejoin.ErrAbandoned: n / 5, rejoin.ErrSessionEnded: n / 5}, cancelled)
		left := kit.HeapAlloc()
		t.Logf("heap: %d KiB before, %d with %d sessions, %d after", base>>10, peak>>10, n, left>>10)
		require.Less(t, left, base+(peak-base)/5, "of the memory that they took")
		open, no := kit.Open(t, s)
		require.Empty(t, no)
		require.NotEmpty(t, open)
	})
}

// leaveOne opens a session and leaves it in one of five states.
func leaveOne(waiting context.Context, t *testing.T, s *rejoin.Server, kind int) {
	t.Helper()
	if kind == 4 {
		r := kit.Request(t, http.MethodPost, strings.Replace(kit.Initialize, `"name":"t"`, `"name":"slow"`, 1)).WithContext(waiting)
		require.Equal(t, "open", kit.Serve(s, r).Summary(), "provisional: initialize is not answered")
		return
	}
	id, no := kit.Open(t, s)
	require.Empty(t, no)
	call := func(method string) string {
		return kit.Serve(s, kit.InSession(t, id, `{"jsonrpc":"2.0","id":1,"method":"`+method+`"}`)).Summary()
	}
	switch kind {
	case 0: // it sends nothing after initialize
	case 1:
		require.Equal(t, "200 sse primer@0 retry ended", call("park"))
	case 2:
		require.Equal(t, "200 sse primer@0 retry ended", call("seal"))
	case 3:
		require.Equal(t, http.StatusAccepted, kit.Notify(t, s, id, "notifications/initialized"))
		require.Equal(t, "200 result ended", call("backlog"))
	}
}

// leftApp is the app of those sessions.
type leftApp struct {
	ended     func()
	cancelled func(error)
}

func (a *leftApp) Open(_ *http.Request, s *rejoin.Session, _ []byte) (rejoin.AppSession, error) {
	return &leftSession{a, s}, nil
}

type leftSession struct {
	app *leftApp
	s   *rejoin.Session
}

func (a *leftSession) Request(c *rejoin.Call) {
	park := func() {
		go func() {
			<-c.Context().Done()
			a.app.cancelled(context.Cause(c.Context()))
		}()
	}
	switch c.Method() {
	case "initialize":
		if strings.Contains(string(c.Params()), "slow") {
			park()
			return
		}
		kit.Accept(c)
	case "park":
		_ = c.Handle().Progress(1, 0, "")
		_ = c.Handle().CloseStream(0)
		park()
	case "seal":
		_ = c.Handle().CloseStream(0)
		_ = c.Reply(json.RawMessage(`"` + strings.Repeat("x", 1000) + `"`))
	case "backlog":
		for range 3 {
			_ = a.s.Notify(context.Background(), "notifications/x", nil)
		}
		kit.Accept(c)
	}
}

func (a *leftSession) Notification(*rejoin.Notification) {}
func (a *leftSession) Ended(error)                       { a.app.ended() }
