package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/client"
)

// within checks that a wait was not shorter than wanted, and no more than a fifth longer.
func within(t *testing.T, want, got time.Duration, args ...any) {
	t.Helper()
	require.GreaterOrEqual(t, got, want, args...)
	require.LessOrEqual(t, got, want+want/5, args...)
}

// Each stream is asked for when its own retry has passed: not before, and no more than a fifth after.
func TestAPollComesNotBeforeRetryAndSoonAfter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const first, second = 700 * time.Millisecond, 5 * time.Second
		server := &script{
			post: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
				stream(w, fmt.Sprintf("id: %s.0\nretry: %d\ndata: \n\n", h.id, map[string]int{"2": 700, "3": 5000}[h.id]))
			},
			get: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
				id, step, _ := strings.Cut(h.cursor, ".")
				if step == "3" {
					stream(w, event(id+".4", `{"jsonrpc":"2.0","id":`+id+`,"result":{}}`))
					return
				}
				stream(w, event(id+"."+string(step[0]+1), note(1))) // the retry of the first connection holds
			},
		}
		_, s, one := play(t, server, client.Config{})
		two := start(t, s)
		require.Len(t, take(one), 3)
		require.Len(t, take(two), 3)
		at := map[string][]time.Duration{}
		for _, h := range server.hits("POST", "tools/call") {
			at[h.id] = []time.Duration{h.at}
		}
		for _, h := range server.hits("GET", "") {
			id, _, _ := strings.Cut(h.cursor, ".")
			at[id] = append(at[id], h.at)
		}
		require.Len(t, at["2"], 5)
		require.Len(t, at["3"], 5)
		for i := range 4 {
			within(t, first, at["2"][i+1]-at["2"][i])
			within(t, second, at["3"][i+1]-at["3"][i])
		}
	})
}

func TestANewRetryReplacesTheOld(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := &script{
			post: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
				stream(w, "retry: 100\n\nid: a\nretry: 3000\ndata: \n\n")
			},
			get: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
				if n == 3 {
					stream(w, event("z", done))
					return
				}
				stream(w, event(fmt.Sprint(n), note(n))+"retry: 200\n\n")
			},
		}
		_, _, call := play(t, server, client.Config{})
		require.NoError(t, call.Wait(t.Context(), nil))
		gaps := server.gaps()
		within(t, 3*time.Second, gaps[0])
		within(t, 200*time.Millisecond, gaps[1])
		within(t, 200*time.Millisecond, gaps[2])
	})
}

// Where the server gives no retry, attempts that bring nothing come 1, 2, 4, … seconds apart, at most BackoffMax, and end.
func TestAttemptsThatBringNothingGrowApartAndEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := &script{
			post: func(w http.ResponseWriter, r *http.Request, h hit, n int) { stream(w, primer("a")) },
			get:  func(w http.ResponseWriter, r *http.Request, h hit, n int) { stream(w, "") },
		}
		_, s, call := play(t, server, client.Config{})
		err := call.Wait(t.Context(), nil)
		var e *client.GaveUpError
		require.ErrorAs(t, err, &e)
		require.Equal(t, 10, e.Attempts)
		require.ErrorContains(t, err, "client: gave up after 10 attempts in ")
		gaps := server.gaps()
		require.Len(t, gaps, 10)
		var sum time.Duration
		for i, want := range []int{1, 1, 2, 4, 8, 16, 30, 30, 30, 30} { // the first wait is after a connection that brought an id
			within(t, time.Duration(want)*time.Second, gaps[i], "wait %d", i)
			sum += gaps[i]
		}
		require.Equal(t, sum-gaps[0], e.Waited)
		require.NotEmpty(t, call.Token(), "somebody may try again")
		require.NoError(t, s.Notify(t.Context(), "notifications/x", nil), "the session is none the worse")
	})
}

func TestBackoffIsConfigurableAndRetryItsFloor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := &script{
			post: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
				stream(w, "id: a\nretry: 300\ndata: \n\n")
			},
			get: func(w http.ResponseWriter, r *http.Request, h hit, n int) { stream(w, "") },
		}
		_, _, call := play(t, server, client.Config{Backoff: 100 * time.Millisecond, BackoffMax: time.Second, Attempts: 6})
		var e *client.GaveUpError
		require.ErrorAs(t, call.Wait(t.Context(), nil), &e)
		require.Equal(t, 6, e.Attempts)
		for i, want := range []int{300, 300, 300, 400, 800, 1000} {
			within(t, time.Duration(want)*time.Millisecond, server.gaps()[i], "wait %d", i)
		}
	})
}

func TestConnectionsThatFailCountAsAttempts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := &script{post: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
			stream(w, primer("a"))
			<-r.Context().Done()
		}}
		w, _, call := play(t, server, client.Config{Attempts: 3})
		synctest.Wait()
		w.setDown(syscall.ECONNREFUSED)
		w.cut()
		err := call.Wait(t.Context(), nil)
		w.setDown(nil)
		var e *client.GaveUpError
		require.ErrorAs(t, err, &e)
		require.Equal(t, 3, e.Attempts)
		require.ErrorIs(t, err, syscall.ECONNREFUSED, "the last reason is kept")
	})
}

// Failures in a row are counted, not those of a whole life.
func TestProgressForgivesFailures(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := &script{
			post: func(w http.ResponseWriter, r *http.Request, h hit, n int) { stream(w, primer("a")) },
			get: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
				switch {
				case n == 30:
					stream(w, event("z", done))
				case n%9 == 3:
					stream(w, primer(fmt.Sprint(n)))
				case n%9 == 6: // held
					stream(w, "")
					pause(r, 40*time.Second)
				case n%3 == 0:
					stream(w, event(fmt.Sprint(n), note(n)))
				default:
					w.WriteHeader(http.StatusBadGateway)
				}
			},
		}
		_, _, call := play(t, server, client.Config{Attempts: 3})
		require.Len(t, take(call), 3)
		require.NoError(t, call.Wait(t.Context(), nil))
	})
}

// A long call says nothing for hours; every poll brings a primer, and nobody gives up.
func TestQuietPollsGoOnForHours(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, hc := tool(t, rejoin.Config{Policy: rejoin.Policy{CloseAfter: 50 * time.Second}}, func(ctx context.Context, h *rejoin.Handle) (any, error) {
			<-time.After(7 * time.Hour)
			return map[string]any{"ok": true}, nil
		})
		polls := 0
		s := connect(t, hc, client.Config{Trace: func(e client.TraceEvent) {
			if e.Kind == client.TracePoll {
				polls++
			}
		}})
		require.NoError(t, s.Do(t.Context(), "tools/call", nil, nil))
		require.Greater(t, polls, 250)
	})
}

// Nor where the server holds each connection until a proxy, or the idle time-out, ends it, and sends no primers.
func TestConnectionsThatTheServerHoldsAreNoFailures(t *testing.T) {
	for name, held := range map[string]time.Duration{"cut by a proxy": 40 * time.Second, "idle": 90 * time.Second} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				server := &script{
					post: func(w http.ResponseWriter, r *http.Request, h hit, n int) { stream(w, primer("a")) },
					get: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
						stream(w, ": hold\n\n")
						select {
						case <-time.After(held):
						case <-r.Context().Done():
						}
						if n == 40 {
							stream(w, event("z", done))
						}
					},
				}
				if held > time.Minute {
					server.get = func(w http.ResponseWriter, r *http.Request, h hit, n int) {
						stream(w, "")
						if n == 40 {
							stream(w, event("z", done))
						}
						<-r.Context().Done()
					}
				}
				_, _, call := play(t, server, client.Config{})
				require.NoError(t, call.Wait(t.Context(), nil))
			})
		})
	}
}

func TestARetryOverTheLimitEndsTheCall(t *testing.T) {
	for _, retry := range []string{"3600001", "1000000000000", "99999999999999999999999999"} {
		bubble(t, func(t *testing.T) {
			server := &script{post: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
				stream(w, "id: a\nretry: "+retry+"\ndata: \n\n")
			}}
			begun := time.Now()
			_, _, call := play(t, server, client.Config{})
			require.ErrorIs(t, call.Wait(t.Context(), nil), client.ErrRetryTooLong)
			require.Zero(t, time.Since(begun))
			require.NotEmpty(t, call.Token())
		})
	}
}

// A retry that is no number is no retry, and one of nothing is no licence to flood.
func TestARetryOfNothingDoesNotFlood(t *testing.T) {
	for retry, least := range map[string]time.Duration{"0": 10 * time.Millisecond, "-5": time.Second, "soon": time.Second, "1.5": time.Second, "": time.Second} {
		bubble(t, func(t *testing.T) {
			server := &script{
				post: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
					stream(w, "id: p\nretry: "+retry+"\ndata: \n\n")
				},
				get: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
					stream(w, fmt.Sprintf("id: p%d\nretry: %s\ndata: \n\n", n, retry))
				},
			}
			_, hc := serveOn(t, server)
			s := connect(t, hc, client.Config{})
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			require.ErrorIs(t, s.Do(ctx, "tools/call", nil, nil), context.DeadlineExceeded)
			polls := server.hits("GET", "")
			require.GreaterOrEqual(t, server.gaps()[0], least)
			require.Less(t, len(polls), 620, "one in a second, after a quick beginning")
			require.Greater(t, len(polls), 480, "and it does not give up")
		})
	}
}

// A server that hands out a message with each poll and wants the next at once gets a hundred a second, not more.
func TestPollsAreTenMillisecondsApartAtLeast(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := &script{
			post: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
				stream(w, "id: p\nretry: 0\ndata: \n\n")
			},
			get: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
				if n == 200 {
					stream(w, event("z", done))
					return
				}
				stream(w, event(fmt.Sprint(n), note(n)))
			},
		}
		_, _, call := play(t, server, client.Config{})
		require.NoError(t, call.Wait(t.Context(), &json.RawMessage{}))
		for i, gap := range server.gaps() {
			require.GreaterOrEqual(t, gap, 10*time.Millisecond, i)
			require.LessOrEqual(t, gap, 24*time.Millisecond, i)
		}
	})
}
