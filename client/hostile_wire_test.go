package client_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/client"
)

// authorized adds what must not reach anybody else, as golang.org/x/oauth2 does it: to each request that is sent.
func authorized(hc *http.Client) *http.Client {
	own := *hc
	own.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer secret")
		return hc.Transport.RoundTrip(r)
	})
	return &own
}

// Nothing is sent to another origin: not the session id, not the cursor, not the authorization, not a byte.
func TestARedirectToAnotherOriginIsNotFollowed(t *testing.T) {
	for _, to := range []string{"http://evil.test/mcp", "https://rejoin.test/mcp", "http://rejoin.test:81/mcp", "//evil.test/mcp", "http://rejoin.test.evil.test/mcp"} {
		for _, status := range []int{301, 302, 303, 307, 308} {
			t.Run(fmt.Sprint(status, " ", to), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					away := func(w http.ResponseWriter, r *http.Request, h hit, n int) { http.Redirect(w, r, to, status) }
					server := &script{
						get: away,
						post: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
							if n == 1 {
								away(w, r, h, n)
								return
							}
							stream(w, primer("a"))
						},
					}
					w, hc := serveOn(t, server)
					hc.CheckRedirect = func(*http.Request, []*http.Request) error { return nil } // it may not allow it either
					s := connect(t, authorized(hc), client.Config{})
					for range 2 { // the POST, then a poll
						err := start(t, s).Wait(t.Context(), nil)
						require.ErrorIs(t, err, client.ErrRedirect)
						require.ErrorContains(t, err, "it leads to another origin, http")
						require.NotErrorIs(t, err, client.ErrMayHaveRun)
					}
					for _, err := range s.Listen(t.Context()) {
						require.ErrorIs(t, err, client.ErrRedirect)
					}
					require.Len(t, server.hits("POST", "tools/call"), 2)
					require.Len(t, server.hits("GET", ""), 2, "it is not tried again")
					w.mu.Lock()
					defer w.mu.Unlock()
					require.Equal(t, map[string]bool{"rejoin.test:80": true}, w.hosts, "nobody else was even dialled")
				})
			})
		}
	}
}

func TestARedirectOfConnectAndCloseIsNotFollowedElsewhere(t *testing.T) {
	bubble(t, func(t *testing.T) {
		away := func(w http.ResponseWriter, r *http.Request, h hit) {
			http.Redirect(w, r, "http://evil.test/", http.StatusTemporaryRedirect)
		}
		w, hc := serveOn(t, &script{initialize: away})
		_, err := client.Connect(t.Context(), address, client.Config{HTTP: hc})
		require.ErrorIs(t, err, client.ErrRedirect)
		server := &script{}
		w2, hc := serveOn(t, server)
		s, err := client.Connect(t.Context(), address, client.Config{HTTP: hc})
		require.NoError(t, err)
		server.other = away
		require.ErrorIs(t, s.Notify(t.Context(), "notifications/x", nil), client.ErrRedirect)
		require.ErrorIs(t, s.Close(t.Context()), client.ErrRedirect)
		require.Len(t, w.hosts, 1)
		require.Len(t, w2.hosts, 1)
	})
}

func TestARedirectWithinTheOriginIsFollowed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := &script{
			post: func(w http.ResponseWriter, r *http.Request, h hit, n int) { stream(w, primer("a")) },
			get:  func(w http.ResponseWriter, r *http.Request, h hit, n int) { stream(w, event("z", done)) },
		}
		s := connect(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/mcp" {
				status := 307
				if r.Method == http.MethodGet {
					status = 302
				}
				http.Redirect(w, r, "/other", status)
				return
			}
			server.ServeHTTP(w, r)
		})), client.Config{})
		require.NoError(t, start(t, s).Wait(t.Context(), nil))
		require.Len(t, server.hits("POST", "tools/call"), 1)
		require.Equal(t, "a", server.hits("GET", "")[0].cursor)
	})
}

// A POST that is redirected as a GET would be lost, and its answer would be the standalone stream.
func TestARedirectThatMakesAGetOfAPostIsNotFollowed(t *testing.T) {
	for _, status := range []int{301, 302, 303} {
		bubble(t, func(t *testing.T) {
			server := &script{
				post: func(w http.ResponseWriter, r *http.Request, h hit, n int) { http.Redirect(w, r, "/mcp/", status) },
				get:  func(w http.ResponseWriter, r *http.Request, h hit, n int) { stream(w, event("z", done)) },
			}
			_, _, call := play(t, server, client.Config{})
			err := call.Wait(t.Context(), nil)
			require.ErrorIs(t, err, client.ErrRedirect)
			require.ErrorContains(t, err, `it makes a GET of a POST; connect to the path "/mcp/"`)
			require.Empty(t, server.hits("GET", ""))
		})
	}
}

func TestARedirectInCirclesEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := 0
		hc := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n++
			http.Redirect(w, r, r.URL.Path, http.StatusTemporaryRedirect)
		}))
		_, err := client.Connect(t.Context(), address, client.Config{HTTP: hc})
		require.ErrorIs(t, err, client.ErrRedirect)
		require.ErrorContains(t, err, "there were 10 already")
		require.Equal(t, 10, n)
	})
}

// misbehave is a server whose every answer is made by f, after the request was read.
func misbehave(t *testing.T, f func(c net.Conn)) *http.Client {
	t.Helper()
	return raw(t, func(c net.Conn) {
		r, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		go io.Copy(io.Discard, c)
		f(c)
	})
}

func TestAHeadWithoutEndIsRefused(t *testing.T) {
	for name, line := range map[string]string{
		"fields": "X-A: " + strings.Repeat("x", kilobyte) + "\r\n", "one field": strings.Repeat("x", kilobyte),
		"interim answers": "\r\nHTTP/1.1 103 Early Hints\r\nX: y\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				hc := misbehave(t, func(c net.Conn) {
					begin := "HTTP/1.1 200 OK\r\n"
					if name == "interim answers" {
						begin = "HTTP/1.1 103 Early Hints\r\nX: y\r\n"
					}
					_, err := io.WriteString(c, begin)
					for err == nil {
						_, err = io.WriteString(c, line)
					}
				})
				_, err := client.Connect(t.Context(), address, client.Config{HTTP: hc})
				require.ErrorIs(t, err, client.ErrMayHaveRun)
			})
		})
	}
}

func TestAHeadThatComesAByteAtATimeEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hc := misbehave(t, func(c net.Conn) {
			_, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nX: ")
			for err == nil {
				<-time.After(time.Second)
				_, err = io.WriteString(c, "x")
			}
		})
		begun := time.Now()
		_, err := client.Connect(t.Context(), address, client.Config{HTTP: hc, Era: client.EraLegacy})
		require.ErrorIs(t, err, client.ErrMayHaveRun)
		require.ErrorContains(t, err, "Config.HeaderTimeout")
		require.Equal(t, time.Minute, time.Since(begun))
		<-time.After(2 * time.Second) // until the server has noticed
	})
}

// A byte at a time, without an end, is what a long call with keep-alives looks like: the context of the call is its limit.
func TestAStreamThatDripsEndsWithTheContext(t *testing.T) {
	for _, drop := range []string{":\n", " ", "\n", "x"} {
		bubble(t, func(t *testing.T) {
			server := &script{post: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
				stream(w, primer("a"))
				for r.Context().Err() == nil {
					pause(r, time.Second)
					stream(w, drop)
				}
			}}
			_, hc := serveOn(t, server)
			s := connect(t, hc, client.Config{})
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			require.ErrorIs(t, s.Do(ctx, "tools/call", nil, nil), context.DeadlineExceeded)
			synctest.Wait()
			require.Len(t, server.hits("POST", "notifications/cancelled"), 1)
		})
	}
}

func TestASessionIDThatCannotBeSentBackIsRefused(t *testing.T) {
	for name, id := range map[string]string{"control": "a\x01b", "tab": "a\tb", "escape": "\x1b[0m", "huge": strings.Repeat("x", 5000)} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				hc := misbehave(t, func(c net.Conn) {
					_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nMcp-Session-Id: "+id+"\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}")
				})
				_, err := client.Connect(t.Context(), address, client.Config{HTTP: hc})
				if !strings.Contains(err.Error(), "malformed MIME header") { // net/http refuses some of them itself
					require.ErrorContains(t, err, fmt.Sprintf("a session id of %d bytes cannot be sent back", len(id)))
				}
			})
		})
	}
}

func TestWhatIsNoHTTPIsAnError(t *testing.T) {
	for _, text := range []string{"", "hello", "HTTP/1.1 abc\r\n\r\n", "HTTP/1.1 200 OK\r\nX\r\n\r\n", "\x15\x03\x01"} {
		bubble(t, func(t *testing.T) {
			hc := misbehave(t, func(c net.Conn) { _, _ = io.WriteString(c, text) })
			_, err := client.Connect(t.Context(), address, client.Config{HTTP: hc})
			require.ErrorIs(t, err, client.ErrMayHaveRun)
		})
	}
}
