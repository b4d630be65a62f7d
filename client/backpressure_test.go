package client_test

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/client"
)

// talker is a server whose call says so many messages of that size, as fast as they are taken, and then ends. sent counts them.
func talker(count, size int, sent *atomic.Int32) *script {
	return &script{post: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
		pad := strings.Repeat("x", size)
		for i := range count {
			stream(w, event(fmt.Sprint(i), fmt.Sprintf(`{"jsonrpc":"2.0","method":"m","params":{"n":%d,"pad":%q}}`, i, pad)))
			if r.Context().Err() != nil {
				return
			}
			sent.Add(1)
		}
		stream(w, event("z", done))
	}}
}

// While nobody takes the messages, the server has to wait: the connection is read no further, and that is no silence of the server's.
func TestWhoReadsNothingStopsTheServer(t *testing.T) {
	for name, test := range map[string]struct{ size, max, least, most int }{
		"by number": {10, 0, 1000, 1200},
		"by bytes":  {10 << 10, 100 << 10, 9, 30},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var sent atomic.Int32
				server := talker(3000, test.size, &sent)
				_, _, call := play(t, server, client.Config{MaxEventBytes: test.max})
				<-time.After(5 * time.Hour)
				require.Greater(t, int(sent.Load()), test.least)
				require.Less(t, int(sent.Load()), test.most)
				n := 0
				for range call.Messages() {
					n++
				}
				require.Equal(t, 3000, n, "none is lost")
				require.NoError(t, call.Wait(t.Context(), nil))
				require.Empty(t, server.hits("GET", ""), "the connection was whole all the time")
			})
		})
	}
}

// Where only the result is wanted, messages do not stand in its way; the newest are kept for a loop that comes late.
func TestWaitLetsTheServerGoOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var sent atomic.Int32
		_, _, call := play(t, talker(3000, 10, &sent), client.Config{})
		<-time.After(time.Minute)
		require.Less(t, int(sent.Load()), 1200)
		require.NoError(t, call.Wait(t.Context(), nil))
		late := take(call)
		require.Len(t, late, 1024)
		require.Contains(t, late[1023], `"n":2999,`)
	})
}

func TestALoopThatIsLeftCanBeTakenUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var sent atomic.Int32
		_, _, call := play(t, talker(3000, 10, &sent), client.Config{})
		for i := range 3000 {
			for m := range call.Messages() {
				require.Contains(t, string(m.Params), fmt.Sprintf(`"n":%d,`, i))
				break
			}
		}
		for range call.Messages() {
			require.Fail(t, "there is no more")
		}
	})
}

// A loop that is left while somebody waits must not stop the server.
func TestWaitGoesOnWhenALoopIsLeft(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var sent atomic.Int32
		_, _, call := play(t, talker(3000, 10, &sent), client.Config{})
		leave := make(chan struct{})
		go func() {
			for range call.Messages() {
				<-leave
				return
			}
		}()
		waited := make(chan error, 1)
		go func() { waited <- call.Wait(t.Context(), nil) }()
		<-time.After(time.Minute)
		require.Less(t, int(sent.Load()), 1200, "the loop is slow, and gets all")
		close(leave)
		require.NoError(t, <-waited)
	})
}

func TestACallThatStandsStillCanBeCancelled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var sent atomic.Int32
		server := talker(3000, 10, &sent)
		_, _, call := play(t, server, client.Config{})
		synctest.Wait()
		call.Cancel("")
		require.Len(t, server.hits("POST", "notifications/cancelled"), 1)
		require.Len(t, take(call), 1024, "what had come is still there")
	})
}

// Silence breaks a stream that can be resumed; a comment, a single byte even, is none.
func TestSilenceBreaksAStream(t *testing.T) {
	for name, test := range map[string]struct {
		text  string
		polls int
	}{"silence": {"", 1}, "comments": {": \n\n", 0}, "bytes": {":", 0}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				server := &script{
					post: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
						stream(w, primer("a"))
						for range 100 {
							select {
							case <-time.After(50 * time.Second):
							case <-r.Context().Done():
								return
							}
							if test.text != "" {
								stream(w, test.text)
							}
						}
						stream(w, "\n\n"+event("z", done))
					},
					get: func(w http.ResponseWriter, r *http.Request, h hit, n int) { stream(w, event("z", done)) },
				}
				_, _, call := play(t, server, client.Config{})
				require.NoError(t, call.Wait(t.Context(), nil))
				polls := server.hits("GET", "")
				require.Len(t, polls, test.polls)
				if test.polls > 0 {
					within(t, time.Second, polls[0].at-server.hits("POST", "tools/call")[0].at-time.Minute)
				}
			})
		})
	}
}

// Where it cannot be resumed, breaking it would lose the call: silence is borne.
func TestSilenceIsBorneWithoutIDs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := &script{post: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
			stream(w, "")
			<-time.After(time.Hour)
			stream(w, "data: "+done+"\n\n")
		}}
		_, _, call := play(t, server, client.Config{})
		require.NoError(t, call.Wait(t.Context(), nil))
	})
}

func TestTheHeadOfAnAnswerIsWaitedForSoLong(t *testing.T) {
	bubble(t, func(t *testing.T) {
		slow := func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-time.After(10 * time.Minute):
			case <-r.Context().Done():
			}
		}
		server := &script{
			post: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
				if n == 1 {
					slow(w, r)
				}
				stream(w, primer("a"))
			},
			get: func(w http.ResponseWriter, r *http.Request, h hit, n int) { slow(w, r) },
		}
		_, s, call := play(t, server, client.Config{Attempts: 2})
		begun := time.Now()
		err := call.Wait(t.Context(), nil)
		require.ErrorIs(t, err, client.ErrMayHaveRun)
		require.ErrorContains(t, err, "Config.HeaderTimeout")
		require.Equal(t, time.Minute, time.Since(begun))
		var e *client.GaveUpError
		require.ErrorAs(t, start(t, s).Wait(t.Context(), nil), &e, "a poll that gets no head is an attempt")
		require.ErrorContains(t, e.Err, "Config.HeaderTimeout")
	})
}

// JSON has no ids: where it stops coming, the call is lost.
func TestJSONThatStopsComingIsLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := &script{post: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"jsonrpc":`))
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}}
		s := connect(t, serve(t, server), client.Config{})
		begun := time.Now()
		err := s.Do(context.Background(), "tools/call", nil, nil)
		require.ErrorIs(t, err, client.ErrMayHaveRun)
		require.ErrorContains(t, err, "Config.IdleTimeout")
		require.Equal(t, time.Minute, time.Since(begun))
	})
}

// A batch of very many small messages is read one by one: it needs little more memory than its bytes, and what nobody takes stops it too.
func TestABatchOfVeryManyMessages(t *testing.T) {
	const n = 300_000
	bubble(t, func(t *testing.T) {
		message := `{"jsonrpc":"2.0","method":"m"}`
		batch := "[" + strings.Repeat(message+",", n) + done + "]"
		server := &script{post: func(w http.ResponseWriter, r *http.Request, h hit, _ int) { stream(w, event("z", batch)) }}
		_, _, call := play(t, server, client.Config{})
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		seen := 0
		for range call.Messages() {
			seen++
		}
		require.Equal(t, n, seen)
		require.NoError(t, call.Wait(t.Context(), nil))
		runtime.ReadMemStats(&after)
		times := float64(after.TotalAlloc-before.TotalAlloc) / float64(len(batch))
		t.Logf("%.1f times its bytes", times)
		require.Less(t, times, 16.0)
	})
}
