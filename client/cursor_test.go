package client_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/client"
)

// The cursor is that of the last connection that had one: also where a resumed connection brings a message without an id, a comment
// or nothing at all before it ends.
func TestTheCursorSurvivesConnectionsWithoutIDs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := &script{
			post: func(w http.ResponseWriter, r *http.Request, h hit, n int) { stream(w, event("a", note(0))) },
			get: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
				switch n {
				case 1:
					stream(w, "data: "+note(1)+"\n\n")
				case 2:
					stream(w, ": nothing\n\n")
				case 3: // ids, and what stands for no message
					stream(w, "id: a\ndata: {}\n\nevent: message\nid: a\ndata:  \n\n")
				case 4:
					stream(w, "retry: 5\n\n")
				case 5: // half an event counts as none
					stream(w, "id: half\ndata: "+note(9)+"\n")
				case 6:
					stream(w, event("b", note(2))+"event: other\nid: c\ndata: not JSON\n\n")
				default:
					stream(w, event("z", done))
				}
			},
		}
		_, _, call := play(t, server, client.Config{})
		require.Equal(t, []string{`{"n":0}`, `{"n":1}`, `{"n":2}`}, take(call))
		require.NoError(t, call.Wait(t.Context(), nil))
		var cursors []string
		for _, h := range server.hits("GET", "") {
			cursors = append(cursors, h.cursor)
			require.Equal(t, "text/event-stream", h.header.Get("Accept"))
			require.Equal(t, "sid", h.session)
			require.Equal(t, "2025-11-25", h.version)
		}
		require.Equal(t, []string{"a", "a", "a", "a", "a", "a", "c"}, cursors)
	})
}

func TestEachStreamHasACursorOfItsOwn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := &script{
			post: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
				stream(w, event("call"+h.id+".0", note(0)))
			},
			get: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
				name, step, _ := strings.Cut(h.cursor, ".")
				switch {
				case name == "": // the standalone stream
					stream(w, event("own.0", note(7)))
				case name == "own":
					stream(w, primer("own."+step+"1"))
				case step == "000":
					stream(w, event("x", `{"jsonrpc":"2.0","id":`+strings.TrimPrefix(name, "call")+`,"result":"`+name+`"}`))
				default:
					stream(w, event(name+"."+step+"0", note(len(step))))
				}
			},
		}
		_, s, one := play(t, server, client.Config{})
		two := start(t, s)
		heard := make(chan string)
		go func() {
			defer close(heard)
			for m, err := range s.Listen(t.Context()) {
				if err == nil {
					heard <- string(m.Params)
				}
				return
			}
		}()
		require.Equal(t, `{"n":7}`, <-heard)
		<-heard
		for id, call := range map[string]*client.Call{"2": one, "3": two} {
			require.Equal(t, []string{`{"n":0}`, `{"n":1}`, `{"n":2}`}, take(call))
			var got string
			require.NoError(t, call.Wait(t.Context(), &got))
			require.Equal(t, "call"+id, got)
		}
		for _, h := range server.hits("POST", "") {
			require.NotContains(t, h.header, "Last-Event-Id", "a cursor belongs to a GET")
		}
	})
}

func TestNothingIsAskedForAfterTheEnd(t *testing.T) {
	for name, end := range map[string]string{
		"result":               event("b", done),
		"result without an id": "data: " + done + "\n\n",
		"error":                event("b", `{"jsonrpc":"2.0","id":2,"error":{"code":-1,"message":"no"}}`),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				server := &script{post: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
					stream(w, primer("a")+end+"retry: 1\n\n")
				}}
				_, _, call := play(t, server, client.Config{})
				if err := call.Wait(t.Context(), nil); name == "error" {
					require.EqualError(t, err, "JSON-RPC error -1: no")
				} else {
					require.NoError(t, err)
				}
				<-time.After(time.Hour)
				require.Empty(t, server.hits("GET", ""))
			})
		})
	}
}

// What a resume is refused with fails its call, at once, and nothing else.
func TestARefusedResumeFailsItsCallAlone(t *testing.T) {
	for status, want := range map[int]error{
		204: client.ErrNoResponse, 400: client.ErrExpired, 410: client.ErrExpired, 404: client.ErrSessionGone, 401: nil, 403: nil, 405: nil,
		501: nil, 505: nil, 406: nil,
	} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				server := &script{
					post: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
						if n == 1 {
							stream(w, primer("a"))
							return
						}
						answer(w, h, `{}`)
					},
					get: func(w http.ResponseWriter, r *http.Request, h hit, n int) { w.WriteHeader(status) },
				}
				_, s, call := play(t, server, client.Config{})
				err := call.Wait(t.Context(), nil)
				if want != nil {
					require.ErrorIs(t, err, want)
				}
				if status != 204 {
					var e *client.StatusError
					require.ErrorAs(t, err, &e)
					require.Equal(t, status, e.Status)
				}
				require.NoError(t, s.Do(t.Context(), "tools/call", nil, nil), "the session goes on")
				require.Len(t, server.hits("GET", ""), 1, "it was asked once")
			})
		})
	}
}

func TestALostPlaceWithoutSessionsIsExpired(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := &script{
			initialize: func(w http.ResponseWriter, r *http.Request, h hit) { answer(w, h, initialized("2025-11-25")) },
			post:       func(w http.ResponseWriter, r *http.Request, h hit, n int) { stream(w, primer("a")) },
			get:        func(w http.ResponseWriter, r *http.Request, h hit, n int) { w.WriteHeader(http.StatusNotFound) },
		}
		_, _, call := play(t, server, client.Config{})
		require.ErrorIs(t, call.Wait(t.Context(), nil), client.ErrExpired)
	})
}

func TestARefusalInPassingIsWaitedFor(t *testing.T) {
	for _, status := range []int{408, 409, 425, 429, 500, 502, 503, 504} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				server := &script{
					post: func(w http.ResponseWriter, r *http.Request, h hit, n int) { stream(w, "id: a\nretry: 50\ndata: \n\n") },
					get: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
						switch n {
						case 1:
							w.WriteHeader(status)
						case 2:
							w.Header().Set("Retry-After", "7")
							w.WriteHeader(status)
						case 3:
							w.Header().Set("Retry-After", time.Now().Add(20*time.Second).UTC().Format(http.TimeFormat))
							w.WriteHeader(status)
						case 4:
							stream(w, event("b", note(4)))
						default:
							stream(w, event("z", done))
						}
					},
				}
				_, _, call := play(t, server, client.Config{})
				require.NoError(t, call.Wait(t.Context(), nil))
				gaps := server.gaps()
				within(t, 50*time.Millisecond, gaps[0])
				within(t, time.Second, gaps[1])
				within(t, 7*time.Second, gaps[2])
				require.InDelta(t, 22, gaps[3].Seconds(), 3, "a date has whole seconds")
				within(t, 50*time.Millisecond, gaps[4], "Retry-After is for one wait")
			})
		})
	}
}

func TestARetryAfterOverTheLimitEndsTheCall(t *testing.T) {
	for _, after := range []string{"3601", "1000000000000000000", "18446744073709551615"} {
		bubble(t, func(t *testing.T) {
			server := &script{
				post: func(w http.ResponseWriter, r *http.Request, h hit, n int) { stream(w, primer("a")) },
				get: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
					w.Header().Set("Retry-After", after)
					w.WriteHeader(http.StatusServiceUnavailable)
				},
			}
			_, _, call := play(t, server, client.Config{})
			require.ErrorIs(t, call.Wait(t.Context(), nil), client.ErrRetryTooLong)
		})
	}
}

// A server that has forgotten what came before repeats itself with each poll. That is no progress, however much it says.
func TestRepetitionIsNoProgress(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := &script{
			post: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
				stream(w, event("a", note(0))+event("b", note(1)))
			},
			get: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
				stream(w, event("a", note(0))+event("b", note(1)))
			},
		}
		_, _, call := play(t, server, client.Config{})
		var e *client.GaveUpError
		require.ErrorAs(t, call.Wait(t.Context(), nil), &e)
	})
}

// Servers of 2025-03-26 may send several messages in one event, or in one answer.
func TestBatchesAreTakenApart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := choosing("2025-03-26")
		server.post = func(w http.ResponseWriter, r *http.Request, h hit, n int) {
			if n == 1 {
				stream(w, event("a", "["+note(0)+","+note(1)+"]")+event("b", "["+note(2)+","+done+"]"))
				return
			}
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `[%s,{"jsonrpc":"2.0","id":%s,"result":5}]`, note(3), h.id)
		}
		_, s, call := play(t, server, client.Config{})
		require.Equal(t, []string{`{"n":0}`, `{"n":1}`, `{"n":2}`}, take(call))
		require.NoError(t, call.Wait(t.Context(), nil))
		two := start(t, s)
		require.Equal(t, []string{`{"n":3}`}, take(two))
		var got int
		require.NoError(t, two.Wait(t.Context(), &got))
		require.Equal(t, 5, got)
	})
}
