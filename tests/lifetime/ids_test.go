package lifetime_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// A client that gets 404 opens a new session; with another error it would send the dead id for ever. So every id that the server does not know is
// answered with 404, in any form and on every verb, and initialize ignores it.
func TestEverySessionIDThatIsNotOursIsUnknown(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		s := kit.NewServer(t, &kit.Fake{}, rejoin.Config{MaxSessions: -1})
		mine, _ := kit.Open(t, s)
		for name, id := range map[string]string{
			"in lower case": strings.ToLower(mine), "cut short": mine[:len(mine)-1], "with more": mine + "A", "quoted": `"` + mine + `"`,
			"two in one line": strings.ToLower(mine) + ", " + strings.ToLower(mine), "its ref": string(kit.Sessions(s)[0].Ref), "a word": "undefined", "a number": "0", "a path": "../" + mine,
			"no ASCII": "sitzung-ä", "no UTF-8": "\xff\xfe", "of 60 kB": strings.Repeat("A", 60_000), "another's": "AAAAAAAAAAAAAAAAAAAAAAAAAA",
		} {
			for verb, r := range verbs(t) {
				if verb == "batch" {
					continue // only clients of older versions send it
				}
				r.Header.Set("Mcp-Session-Id", id)
				require.Equal(t, "404 error(-32001,null) ended", kit.Serve(s, r).Summary(), "%s, %s", name, verb)
			}
			w := kit.Serve(s, kit.Request(t, http.MethodPost, kit.Initialize, "Mcp-Session-Id", id))
			require.Equal(t, "200 result ended", w.Summary(), name)
			require.NotEqual(t, mine, w.Head.Get("Mcp-Session-Id"))
		}
		require.Equal(t, "200 result ended", kit.Serve(s, kit.InSession(t, mine, kit.Ping)).Summary())
	})
}

// A client may send initialize twice at once, with or without the id of a session. Each is handled on its own.
func TestInitializeTwiceAtOnce(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		var waiting []*rejoin.Call
		app := &kit.Fake{}
		s := kit.NewServer(t, app, rejoin.Config{})
		mine, _ := kit.Open(t, s)
		app.OnRequest = func(c *rejoin.Call) {
			if c.Method() == "initialize" {
				waiting = append(waiting, c)
				return
			}
			kit.Accept(c)
		}
		for _, test := range []struct {
			id, want string
			asked    int
		}{{"", "200 result ended", 2}, {"nobody", "200 result ended", 2}, {mine, `400 error(-32600,"mine") ended`, 0}} {
			before := s.Stats().Sessions
			one := kit.Serve(s, kit.Request(t, http.MethodPost, kit.Initialize, "Mcp-Session-Id", test.id))
			two := kit.Serve(s, kit.Request(t, http.MethodPost, kit.Initialize, "Mcp-Session-Id", test.id))
			require.Len(t, waiting, test.asked)
			for _, c := range waiting {
				kit.Accept(c)
			}
			waiting = nil
			require.Equal(t, test.want, one.Summary())
			require.Equal(t, test.want, two.Summary())
			require.EqualValues(t, test.asked, s.Stats().Sessions-before)
			if test.asked > 0 {
				ids := []string{one.Head.Get("Mcp-Session-Id"), two.Head.Get("Mcp-Session-Id")}
				require.NotEqual(t, ids[0], ids[1])
				for _, id := range append(ids, mine) {
					require.Equal(t, "200 result ended", kit.Serve(s, kit.InSession(t, id, kit.Ping)).Summary())
				}
			}
		}
	})
}

// Sessions that are never deleted cost nothing after their time, and their ids are unknown. A running call keeps its session, also without a
// connection.
func TestAThousandClientsThatNeverSayGoodbye(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		store := kit.NewWatchedStore()
		s := kit.NewServer(t, app, rejoin.Config{
			SessionIdleTTL: 500 * time.Millisecond, Store: store, Policy: rejoin.Policy{Retry: time.Millisecond, Retain: time.Second},
		})
		resting := len(kit.Goroutines())
		var ids []string
		open := func() string {
			id, refused := kit.Open(t, s)
			require.Empty(t, refused)
			require.Equal(t, http.StatusAccepted, kit.Notify(t, s, id, "notifications/initialized"))
			return id
		}
		busy := open()
		call := kit.Serve(s, kit.InSession(t, busy, `{"jsonrpc":"2.0","id":1,"method":"x"}`))
		tool := next()
		require.NoError(t, tool.CloseStream(time.Millisecond))
		require.Equal(t, "200 sse primer@0 retry ended", call.Summary())
		began := time.Now()
		for i := range 1000 {
			ids = append(ids, open())
			if i%10 == 0 { // some leave a result behind
				w := kit.Serve(s, kit.InSession(t, ids[i], `{"jsonrpc":"2.0","id":1,"method":"x"}`))
				left := next()
				require.NoError(t, left.CloseStream(0))
				left.Returns("done")
				require.Equal(t, "200 sse primer@0 retry ended", w.Summary())
			}
		}
		require.Zero(t, time.Since(began))
		require.EqualValues(t, 1001, s.Stats().Sessions)
		kit.Elapse(2 * time.Second)
		stats := s.Stats()
		require.EqualValues(t, 1, stats.Sessions)
		require.EqualValues(t, 1, stats.Parked)
		require.Zero(t, stats.Connections+stats.StoredBytes)
		for i, id := range ids {
			require.Equal(t, "404 error(-32001,null) ended", kit.Serve(s, kit.InSession(t, id, kit.Ping)).Summary(), i)
		}
		kit.Elapse(time.Second)
		require.NoError(t, tool.Cause())
		tool.Returns("done")
		r := kit.Request(t, http.MethodGet, "", "Mcp-Session-Id", busy, "Last-Event-ID", kit.IDsIn(call)[0])
		require.Equal(t, "200 sse primer@0 1:result ended", kit.Serve(s, r).Summary())
		kit.Elapse(3 * time.Second)
		require.Zero(t, s.Stats().Sessions)
		running := kit.Goroutines()
		require.LessOrEqual(t, len(running), resting, strings.Join(running, "\n\n"))
	})
}

// A body of 5 MB is over the default limit: it is refused, with and without a Content-Length, before a session is opened. It is read only up to the
// limit, and the refusal has the id, which has come by then.
func TestABodyOfFiveMegabytes(t *testing.T) {
	const size = 5_000_000
	kit.Bubble(t, func(t *testing.T) {
		opened := 0
		s := kit.NewServer(t, &kit.Fake{OnOpen: func(*http.Request, *rejoin.Session) (rejoin.AppSession, error) {
			opened++
			return &kit.Fake{}, nil
		}}, rejoin.Config{})
		for _, body := range []string{kit.Ping, kit.Initialize} {
			for name, test := range map[string]struct {
				length int64
				pause  time.Duration
			}{"its length is said": {length: size}, "it is chunked": {length: -1}, "it drips": {length: -1, pause: time.Second}} {
				r := kit.Request(t, http.MethodPost, "")
				r.ContentLength = test.length
				read, text := 0, strings.NewReader(body+strings.Repeat(" ", size-len(body)))
				r.Body = pieces{func(p []byte) (int, error) {
					kit.Elapse(test.pause)
					n, err := text.Read(p[:min(len(p), 100_000)])
					read += n
					return n, err
				}}
				w := kit.Serve(s, r)
				kit.Elapse(time.Hour)
				require.Equal(t, `413 error(-32600,"mine") ended`, w.Summary(), name)
				require.LessOrEqual(t, read, 4<<20+1, name)
			}
		}
		require.Zero(t, opened)
		require.Equal(t, rejoin.Stats{Refused: 6}, s.Stats())
	})
}

// pieces is a body that is made of a function.
type pieces struct{ kit.ReaderFunc }

func (pieces) Close() error { return nil }
