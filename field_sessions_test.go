package rejoin_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
)

// A client that is told 404 begins anew; told anything else it sends the same dead id for ever. So every id that is none of ours is unknown,
// however it looks, on every verb, and initialize does not mind it.
func TestEverySessionIDThatIsNotOursIsUnknown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newServer(t, &fake{}, rejoin.Config{MaxSessions: -1})
		mine, _ := opens(t, s)
		for name, id := range map[string]string{
			"in lower case": strings.ToLower(mine), "cut short": mine[:len(mine)-1], "with more": mine + "A", "quoted": `"` + mine + `"`,
			"two in one line": mine + ", " + mine, "its ref": string(sessions(s)[0].Ref), "a word": "undefined", "a number": "0", "a path": "../" + mine,
			"no ASCII": "sitzung-ä", "no UTF-8": "\xff\xfe", "of 100 kB": strings.Repeat("A", 100_000), "another's": "AAAAAAAAAAAAAAAAAAAAAAAAAA",
		} {
			for verb, r := range verbs(t) {
				if verb == "batch" {
					continue // of an older version
				}
				r.Header.Set("Mcp-Session-Id", id)
				require.Equal(t, "404 error(-32001,null) ended", serve(s, r).story(), "%s, %s", name, verb)
			}
			w := serve(s, request(t, http.MethodPost, initialize, "Mcp-Session-Id", id))
			require.Equal(t, "200 result ended", w.story(), name)
			require.NotEqual(t, mine, w.header.Get("Mcp-Session-Id"))
		}
		require.Equal(t, "200 result ended", serve(s, inSession(t, mine, ping)).story())
	})
}

// A client may send initialize twice at once, with or without the id of a session, and each is judged for itself.
func TestInitializeTwiceAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var waiting []*rejoin.Call
		app := &fake{}
		s := newServer(t, app, rejoin.Config{})
		mine, _ := opens(t, s)
		app.request = func(c *rejoin.Call) {
			if c.Method() == "initialize" {
				waiting = append(waiting, c)
				return
			}
			accept(c)
		}
		for _, test := range []struct {
			id, want string
			asked    int
		}{{"", "200 result ended", 2}, {"nobody", "200 result ended", 2}, {mine, `400 error(-32600,"mine") ended`, 0}} {
			before := s.Stats().Sessions
			one := serve(s, request(t, http.MethodPost, initialize, "Mcp-Session-Id", test.id))
			two := serve(s, request(t, http.MethodPost, initialize, "Mcp-Session-Id", test.id))
			require.Len(t, waiting, test.asked)
			for _, c := range waiting {
				accept(c)
			}
			waiting = nil
			require.Equal(t, test.want, one.story())
			require.Equal(t, test.want, two.story())
			require.EqualValues(t, test.asked, s.Stats().Sessions-before)
			if test.asked > 0 {
				ids := []string{one.header.Get("Mcp-Session-Id"), two.header.Get("Mcp-Session-Id")}
				require.NotEqual(t, ids[0], ids[1])
				for _, id := range append(ids, mine) {
					require.Equal(t, "200 result ended", serve(s, inSession(t, id, ping)).story())
				}
			}
		}
	})
}

// Clients that never say goodbye cost nothing when their time is over, and their ids are unknown; a call that runs keeps its session, though
// nobody is connected.
func TestAThousandClientsThatNeverSayGoodbye(t *testing.T) {
	bubble(t, func(t *testing.T) {
		app, next := puppets()
		store := newWatchedStore()
		s := newServer(t, app, rejoin.Config{
			SessionIdleTTL: 500 * time.Millisecond, Store: store, Policy: rejoin.Policy{Retry: time.Millisecond, Retain: time.Second},
		})
		resting := len(goroutines())
		var ids []string
		open := func() string {
			id, refused := opens(t, s)
			require.Empty(t, refused)
			require.Equal(t, http.StatusAccepted, says(t, s, id, "notifications/initialized"))
			return id
		}
		busy := open()
		call := serve(s, inSession(t, busy, `{"jsonrpc":"2.0","id":1,"method":"x"}`))
		tool := next()
		require.NoError(t, tool.CloseStream(time.Millisecond))
		require.Equal(t, "200 sse primer@0 retry ended", call.story())
		began := time.Now()
		for i := range 1000 {
			ids = append(ids, open())
			if i%10 == 0 { // and some leave a result behind
				w := serve(s, inSession(t, ids[i], `{"jsonrpc":"2.0","id":1,"method":"x"}`))
				left := next()
				require.NoError(t, left.CloseStream(0))
				left.returns("done")
				require.Equal(t, "200 sse primer@0 retry ended", w.story())
			}
		}
		require.Zero(t, time.Since(began))
		require.EqualValues(t, 1001, s.Stats().Sessions)
		elapse(2 * time.Second)
		stats := s.Stats()
		require.EqualValues(t, 1, stats.Sessions)
		require.EqualValues(t, 1, stats.Parked)
		require.Zero(t, stats.Connections+stats.StoredBytes)
		for i, id := range ids {
			require.Equal(t, "404 error(-32001,null) ended", serve(s, inSession(t, id, ping)).story(), i)
		}
		elapse(time.Second)
		require.NoError(t, tool.cause())
		tool.returns("done")
		r := request(t, http.MethodGet, "", "Mcp-Session-Id", busy, "Last-Event-ID", idsIn(call)[0])
		require.Equal(t, "200 sse primer@0 1:result ended", serve(s, r).story())
		elapse(3 * time.Second)
		require.Zero(t, s.Stats().Sessions)
		running := goroutines()
		require.LessOrEqual(t, len(running), resting, strings.Join(running, "\n\n"))
	})
}

// idsIn are the event ids in a response, the oldest first.
func idsIn(w *response) (ids []string) {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	for line := range strings.Lines(w.body.String()) {
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			ids = append(ids, strings.TrimSpace(id))
		}
	}
	return ids
}

// Bodies of 5 MB are over the limit that nobody has configured: refused however they come, before there is a session, read no further
// than the limit, and with the id, which has been read by then.
func TestABodyOfFiveMegabytes(t *testing.T) {
	const size = 5_000_000
	bubble(t, func(t *testing.T) {
		opened := 0
		s := newServer(t, &fake{open: func(*http.Request, *rejoin.Session) (rejoin.AppSession, error) {
			opened++
			return &fake{}, nil
		}}, rejoin.Config{})
		for _, body := range []string{ping, initialize} {
			for name, test := range map[string]struct {
				length int64
				pause  time.Duration
			}{"its length is said": {length: size}, "it is chunked": {length: -1}, "it drips": {length: -1, pause: time.Second}} {
				r := request(t, http.MethodPost, "")
				r.ContentLength = test.length
				read, text := 0, strings.NewReader(body+strings.Repeat(" ", size-len(body)))
				r.Body = pieces{func(p []byte) (int, error) {
					elapse(test.pause)
					n, err := text.Read(p[:min(len(p), 100_000)])
					read += n
					return n, err
				}}
				w := serve(s, r)
				elapse(time.Hour)
				require.Equal(t, `413 error(-32600,"mine") ended`, w.story(), name)
				require.LessOrEqual(t, read, 4<<20+1, name)
			}
		}
		require.Zero(t, opened)
		require.Equal(t, rejoin.Stats{Refused: 6}, s.Stats())
	})
}

// pieces is a body.
type pieces struct{ readerFunc }

func (pieces) Close() error { return nil }
