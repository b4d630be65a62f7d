package client_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/client"
)

// endless writes without end.
func endless(w http.ResponseWriter, r *http.Request, kind, begin, more string) {
	w.Header().Set("Content-Type", kind)
	_, _ = io.WriteString(w, begin)
	for r.Context().Err() == nil {
		if _, err := io.WriteString(w, more); err != nil {
			return
		}
	}
}

const kilobyte = 1024

// attack is a server whose answer to a call is bad. The call must end with want, at once, be it the POST that is answered so or a poll.
func attack(t *testing.T, want error, text string, bad func(w http.ResponseWriter, r *http.Request)) {
	t.Helper()
	for _, polled := range []bool{false, true} {
		t.Run(fmt.Sprintf("polled %v", polled), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				server := &script{
					post: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
						if polled {
							stream(w, "retry: 10\n\n"+primer("a"))
							return
						}
						bad(w, r)
					},
					get: func(w http.ResponseWriter, r *http.Request, h hit, n int) { bad(w, r) },
				}
				begun := time.Now()
				_, s, call := play(t, server, client.Config{MaxEventBytes: 64 * kilobyte})
				err := call.Wait(t.Context(), nil)
				require.ErrorIs(t, err, want)
				require.ErrorContains(t, err, text)
				require.Less(t, time.Since(begun), 10*time.Second)
				require.NoError(t, s.Notify(t.Context(), "notifications/x", nil), "the session is none the worse")
				require.LessOrEqual(t, len(server.hits("GET", "")), 1)
			})
		})
	}
}

func TestAnEndlessEventIsRefused(t *testing.T) {
	for name, more := range map[string]string{
		"one line":         strings.Repeat("x", kilobyte),
		"many lines":       "\ndata: " + strings.Repeat("x", kilobyte),
		"an endless id":    "\nid: " + strings.Repeat("x", 70*kilobyte),
		"an endless field": "\nfoo" + strings.Repeat("x", 70*kilobyte),
	} {
		t.Run(name, func(t *testing.T) {
			attack(t, client.ErrProtocol, "an event over Config.MaxEventBytes", func(w http.ResponseWriter, r *http.Request) {
				endless(w, r, "text/event-stream", "id: b\ndata: ", more)
			})
		})
	}
}

func TestAnEndlessCommentIsRefused(t *testing.T) {
	attack(t, client.ErrProtocol, "an event over Config.MaxEventBytes", func(w http.ResponseWriter, r *http.Request) {
		endless(w, r, "text/event-stream", ":", strings.Repeat("x", kilobyte))
	})
}

func TestEndlessJSONIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := &script{post: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
			endless(w, r, "application/json", `{"jsonrpc":"2.0","id":2,"result":"`, strings.Repeat("x", kilobyte))
		}}
		_, _, call := play(t, server, client.Config{MaxEventBytes: 64 * kilobyte})
		err := call.Wait(t.Context(), nil)
		require.ErrorIs(t, err, client.ErrProtocol)
		require.ErrorContains(t, err, "JSON over Config.MaxEventBytes")
	})
}

func TestAHugeIDIsRefused(t *testing.T) {
	attack(t, client.ErrProtocol, "an event id of 5000 bytes cannot be sent back", func(w http.ResponseWriter, r *http.Request) {
		stream(w, event(strings.Repeat("x", 5000), note(1)))
	})
}

func TestAnIDThatIsNoTextIsRefused(t *testing.T) {
	for _, id := range []string{"a\x01b", "a\tb", "\x7f", "a\x1b[0m", "\xff"} {
		attack(t, client.ErrProtocol, "cannot be sent back", func(w http.ResponseWriter, r *http.Request) {
			stream(w, event(id, note(1)))
		})
	}
}

// Everything else is sent back as it came; one with a NUL is none (WHATWG, server-sent events).
func TestAnOddIDIsSentBackAsItCame(t *testing.T) {
	for id, want := range map[string]string{
		"é🐟": "é🐟", `"; x=y`: `"; x=y`, "a b": "a b", "a:b, c": "a:b, c", "../..": "../..", "%0d%0a": "%0d%0a", "a\x00b": "first",
		strings.Repeat("x", 4096): strings.Repeat("x", 4096),
	} {
		bubble(t, func(t *testing.T) {
			server := &script{
				post: func(w http.ResponseWriter, r *http.Request, h hit, n int) { stream(w, primer("first")+primer(id)) },
				get:  func(w http.ResponseWriter, r *http.Request, h hit, n int) { stream(w, event("z", done)) },
			}
			_, _, call := play(t, server, client.Config{})
			require.NoError(t, call.Wait(t.Context(), nil))
			require.Equal(t, want, server.hits("GET", "")[0].cursor)
		})
	}
}

func TestHTMLIsNoAnswer(t *testing.T) {
	attack(t, client.ErrProtocol, `Content-Type "text/html"`, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, "<html>sign in</html>")
	})
}

func TestAnEmptyAnswerIsNone(t *testing.T) {
	attack(t, client.ErrProtocol, `Content-Type ""`, func(w http.ResponseWriter, r *http.Request) {})
}

func TestWhatIsNoMessageEndsTheCall(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON":         "hello",
		"half of one":     `{"jsonrpc":"2.0"`,
		"two":             done + done,
		"a string":        `"x"`,
		"no version":      `{"id":2,"result":1}`,
		"both":            `{"jsonrpc":"2.0","id":2,"result":1,"error":{"code":1,"message":""}}`,
		"a key twice":     `{"jsonrpc":"2.0","id":3,"id":2,"result":1}`,
		"a result twice":  `{"jsonrpc":"2.0","id":2,"result":1,"result":2}`,
		"an empty batch":  `[]`,
		"a batch of junk": `[1]`,
		"too deep":        `{"jsonrpc":"2.0","id":2,"result":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `}`,
	} {
		t.Run(name, func(t *testing.T) {
			attack(t, client.ErrProtocol, "client: not an answer of an MCP server: ", func(w http.ResponseWriter, r *http.Request) {
				stream(w, event("b", text))
			})
			bubble(t, func(t *testing.T) {
				server := &script{post: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
					w.Header().Set("Content-Type", "application/json")
					_, _ = io.WriteString(w, text)
				}}
				_, _, call := play(t, server, client.Config{})
				require.ErrorIs(t, call.Wait(t.Context(), nil), client.ErrProtocol)
			})
		})
	}
}

// The response to another request is nobody's: it ends no call, neither this nor the other.
func TestTheResponseToAnotherRequestIsNotTaken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := &script{
			post: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
				if n == 3 {
					w.Header().Set("Content-Type", "application/json")
					_, _ = io.WriteString(w, done)
					return
				}
				stream(w, primer("a"))
				<-r.Context().Done()
			},
		}
		w, s, one := play(t, server, client.Config{})
		synctest.Wait()
		two := start(t, s)
		synctest.Wait()
		server.get = func(w http.ResponseWriter, r *http.Request, h hit, n int) {
			stream(w, event("b", `{"jsonrpc":"2.0","id":"2","result":"a string"}`)+event("c", `{"jsonrpc":"2.0","id":2.5,"result":"another"}`))
			stream(w, event("d", `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"nobody's"}}`)+event("e", `{"jsonrpc":"2.0","id":3,"result":"right"}`))
			<-r.Context().Done()
		}
		err := s.Do(t.Context(), "tools/call", nil, nil)
		require.ErrorIs(t, err, client.ErrProtocol)
		require.ErrorContains(t, err, "JSON without the response")
		w.cut()
		var got string
		require.NoError(t, two.Wait(t.Context(), &got))
		require.Equal(t, "right", got)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, one.Wait(ctx, nil), context.DeadlineExceeded)
	})
}

func TestACompressedBombIsNotUnpacked(t *testing.T) {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, _ = z.Write(make([]byte, 50<<20))
	_ = z.Close()
	for name, of := range map[string][2]string{
		"JSON": {"application/json", "gzip"}, "stream": {"text/event-stream", "gzip"}, "deflate": {"text/event-stream", "deflate"},
	} {
		t.Run(name, func(t *testing.T) {
			attack(t, client.ErrProtocol, `Content-Encoding "`+of[1]+`", which was not accepted`, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Accept-Encoding") != "identity" {
					panic(http.ErrAbortHandler)
				}
				w.Header().Set("Content-Type", of[0])
				w.Header().Set("Content-Encoding", of[1])
				_, _ = w.Write(bomb.Bytes())
			})
		})
	}
	bubble(t, func(t *testing.T) {
		server := &script{post: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
			w.Header().Set("Content-Encoding", "gzip")
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write(bomb.Bytes())
		}}
		_, _, call := play(t, server, client.Config{})
		require.EqualError(t, call.Wait(t.Context(), nil), "client: the server answered 403 Forbidden", "a refusal is one in any coding")
	})
}

func TestARefusalWithoutEndIsReadNoFurther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := &script{post: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
			w.WriteHeader(http.StatusForbidden)
			if n == 1 {
				endless(w, r, "application/json", `{"`, strings.Repeat("x", kilobyte))
				return
			}
			for r.Context().Err() == nil { // a byte at a time
				stream(w, " ")
				pause(r, 100*time.Millisecond)
			}
		}}
		_, s, call := play(t, server, client.Config{})
		require.EqualError(t, call.Wait(t.Context(), nil), "client: the server answered 403 Forbidden")
		begun := time.Now()
		require.EqualError(t, s.Do(t.Context(), "tools/call", nil, nil), "client: the server answered 403 Forbidden")
		require.Equal(t, 2*time.Second, time.Since(begun))
	})
}
