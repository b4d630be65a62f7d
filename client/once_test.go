package client_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/client"
)

// A stream that gave no event id is lost when it breaks, and its request is not sent again.
func TestWithoutIDsACallIsNotRetried(t *testing.T) {
	hijack := func(w http.ResponseWriter, r *http.Request, h hit, n int) {
		c, _, _ := http.NewResponseController(w).Hijack()
		_ = c.Close()
	}
	for name, post := range map[string]func(w http.ResponseWriter, r *http.Request, h hit, n int){
		"no head":        hijack,
		"an empty one":   func(w http.ResponseWriter, r *http.Request, h hit, n int) { stream(w, "") },
		"messages":       func(w http.ResponseWriter, r *http.Request, h hit, n int) { stream(w, "data: "+note(1)+"\n\n") },
		"an id, cleared": func(w http.ResponseWriter, r *http.Request, h hit, n int) { stream(w, primer("a")+"id:\n\n") },
		"retry alone":    func(w http.ResponseWriter, r *http.Request, h hit, n int) { stream(w, "retry: 1\n\n") },
		"no JSON to the end": func(w http.ResponseWriter, r *http.Request, h hit, n int) {
			w.Header().Set("Content-Length", "100")
			answer(w, h, "{}")
		},
		"broken": func(w http.ResponseWriter, r *http.Request, h hit, n int) {
			stream(w, ": hi\n\n")
			hijack(w, r, h, n)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				server := &script{post: post}
				_, s, call := play(t, server, client.Config{})
				require.ErrorIs(t, call.Wait(t.Context(), nil), client.ErrMayHaveRun)
				require.Empty(t, call.Token())
				require.NoError(t, s.Notify(t.Context(), "notifications/x", nil))
				<-time.After(time.Hour)
				require.Len(t, server.hits("POST", "tools/call"), 1)
				require.Empty(t, server.hits("GET", ""))
			})
		})
	}
}

func TestARefusedRequestIsNotSentAgain(t *testing.T) {
	for _, status := range []int{400, 401, 404, 409, 429, 500, 503, 202, 204, 206} {
		bubble(t, func(t *testing.T) {
			server := &script{post: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
				w.Header().Set("Retry-After", "1")
				w.WriteHeader(status)
			}}
			_, _, call := play(t, server, client.Config{})
			err := call.Wait(t.Context(), nil)
			var e *client.StatusError
			if status < 300 {
				require.ErrorIs(t, err, client.ErrProtocol)
			} else if require.ErrorAs(t, err, &e); status == 404 {
				require.ErrorIs(t, err, client.ErrSessionGone)
			}
			require.NotErrorIs(t, err, client.ErrMayHaveRun)
			<-time.After(time.Hour)
			require.Len(t, server.hits("POST", "tools/call"), 1)
		})
	}
}

func TestACallThatNeverLeftHasNotRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := &script{}
		w, hc := serveOn(t, server)
		s := connect(t, hc, client.Config{})
		hc.CloseIdleConnections()
		w.setDown(syscall.ECONNREFUSED)
		err := s.Do(t.Context(), "tools/call", nil, nil)
		w.setDown(nil)
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		require.NotErrorIs(t, err, client.ErrMayHaveRun)
		require.NotContains(t, err.Error(), address, "a URL may hold secrets")
		require.Empty(t, server.hits("POST", "tools/call"))
	})
}

// roundTripper is a transport that tells nobody what it does.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestWithAForeignTransportABodyThatWasReadMayHaveRun(t *testing.T) {
	for read, want := range map[bool]bool{true: true, false: false} {
		bubble(t, func(t *testing.T) {
			hc := serve(t, &script{})
			own, broken := *hc, false
			own.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
				if !broken || r.Method != http.MethodPost {
					return hc.Transport.RoundTrip(r)
				}
				if read {
					_, _ = io.ReadAll(r.Body)
				}
				_ = r.Body.Close()
				return nil, errors.New("broken")
			})
			s := connect(t, &own, client.Config{})
			broken = true
			err := s.Do(t.Context(), "tools/call", nil, nil)
			require.ErrorContains(t, err, "broken")
			require.Equal(t, want, errors.Is(err, client.ErrMayHaveRun))
		})
	}
}

// net/http sends a request again when a pooled connection turns out to be dead. A POST it must not, once a byte has left: here the server
// reads the whole request on a connection that it has used before, and hangs up.
func TestAPooledConnectionThatDiesSendsNothingTwice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var calls atomic.Int32
		hc := raw(t, func(c net.Conn) {
			for in := bufio.NewReader(c); ; {
				r, err := http.ReadRequest(in)
				if err != nil {
					return
				}
				body, _ := io.ReadAll(r.Body)
				switch {
				case bytes.Contains(body, []byte(`"tools/call"`)):
					calls.Add(1)
					return
				case bytes.Contains(body, []byte(`"initialize"`)):
					text := `{"jsonrpc":"2.0","id":1,"result":` + initialized("2025-11-25") + `}`
					_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "+strconv.Itoa(len(text))+"\r\n\r\n"+text)
				default:
					_, _ = io.WriteString(c, "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")
				}
			}
		})
		s := connect(t, hc, client.Config{})
		synctest.Wait()
		require.ErrorIs(t, s.Do(t.Context(), "tools/call", nil, nil), client.ErrMayHaveRun)
		<-time.After(time.Hour)
		require.EqualValues(t, 1, calls.Load())
	})
}

// A connection that the server closed while it lay in the pool has carried nothing: there the call goes out on another, once.
func TestAPooledConnectionThatWasClosedIsReplaced(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := &script{post: func(w http.ResponseWriter, r *http.Request, h hit, n int) { answer(w, h, "{}") }}
		w, hc := serveOn(t, server)
		s := connect(t, hc, client.Config{})
		synctest.Wait()
		w.cut()
		require.NoError(t, s.Do(t.Context(), "tools/call", nil, nil))
		require.Len(t, server.hits("POST", "tools/call"), 1)
	})
}

// After a response the connection can be used again.
func TestACallDoesNotCostAConnection(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := &script{post: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
			stream(w, event(h.id, result(h, "{}")))
		}}
		w, hc := serveOn(t, server)
		s := connect(t, hc, client.Config{})
		for range 5 {
			require.NoError(t, s.Do(t.Context(), "tools/call", nil, nil))
			synctest.Wait()
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		require.Len(t, w.ends, 1)
	})
}
