package modern_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

type onlyUnwraps struct{ http.ResponseWriter }

func (w onlyUnwraps) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// part reads what has come.
func part(t *testing.T, r io.Reader) string {
	t.Helper()
	var b [4096]byte
	n, err := r.Read(b[:])
	require.True(t, err == nil || n > 0, "%v", err)
	return string(b[:n])
}

// What a modern handler flushes is sent at once, also through a middleware's writer that has only Unwrap. Through a writer that hides everything but the
// minimum it is sent at the end, and that is logged once.
func TestAModernStreamBehindMiddleware(t *testing.T) {
	for name, test := range map[string]struct {
		wrap  func(http.ResponseWriter) http.ResponseWriter
		hides bool
	}{
		"nothing":     {func(w http.ResponseWriter) http.ResponseWriter { return w }, false},
		"only Unwrap": {func(w http.ResponseWriter) http.ResponseWriter { return onlyUnwraps{onlyUnwraps{w}} }, false},
		"hides":       {func(w http.ResponseWriter) http.ResponseWriter { return struct{ http.ResponseWriter }{w} }, true},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				said := &kit.Log{}
				c := modernClient(t, rejointest.Config{
					Server: rejoin.Config{Logger: slog.New(slog.NewTextHandler(said, nil))},
					Handler: func(s *rejoin.Server) http.Handler {
						h := stdadapter.New(s)
						return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(test.wrap(w), r) })
					},
				}, func(w http.ResponseWriter, _ *http.Request) {
					begins(w)
					_, _ = io.WriteString(w, "data: 1\n\n")
					if f, ok := w.(http.Flusher); ok {
						f.Flush()
					}
					kit.Elapse(time.Minute)
					_, _ = io.WriteString(w, "data: 2\n\n")
				})
				for range 2 {
					began := time.Now()
					res := c.Do(kit.Request(t, http.MethodPost, kit.ModernPing))
					kit.RequireStream(t, res)
					first := part(t, res.Body)
					require.Equal(t, test.hides, time.Since(began) > 0)
					rest, _ := kit.ReadAll(t, res)
					require.Equal(t, "data: 1\n\ndata: 2\n\n", strings.ReplaceAll(first+rest, ": \n\n", ""))
				}
				require.Equal(t, map[bool]int{true: 1}[test.hides], said.Count("cannot flush"))
			})
		})
	}
}

// The server's time-outs are for requests, not for answers: neither a silent stream nor a slow answer is cut.
func TestTimeOutsOfTheServerCutNoModernRequest(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		c := modernClient(t, rejointest.Config{
			Server: rejoin.Config{KeepAlive: -1},
			HTTP: func(s *http.Server) {
				s.ReadTimeout, s.WriteTimeout, s.ReadHeaderTimeout = time.Second, time.Second, time.Second
			},
		}, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Stream") != "" {
				begins(w)
				puts(t, w, "data: 1\n\n")
			}
			select {
			case <-r.Context().Done():
				t.Error(context.Cause(r.Context()))
			case <-time.After(30 * time.Minute):
			}
			_, err := io.WriteString(w, "data: 2\n\n")
			if err != nil {
				t.Error(err)
			}
		})
		for _, stream := range []string{"", "yes"} {
			body, res := kit.Post(t, c, kit.ModernPing, "Stream", stream)
			require.Equal(t, http.StatusOK, res.StatusCode)
			require.True(t, strings.HasSuffix(body, "data: 2\n\n"))
		}
	})
}

// If write deadlines do not work, the server's WriteTimeout cannot be extended: that is logged.
func TestAModernRequestWithoutWriteDeadlines(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		said := &kit.Log{}
		s := modernServer(t, rejoin.Config{Logger: slog.New(slog.NewTextHandler(said, nil))}, func(w http.ResponseWriter, _ *http.Request) {
			begins(w)
			puts(t, w, "data: 1\n\n")
		})
		for range 2 {
			r := kit.Request(t, http.MethodPost, kit.ModernPing)
			r = r.WithContext(context.WithValue(r.Context(), http.ServerContextKey, &http.Server{WriteTimeout: time.Second, ReadHeaderTimeout: time.Second}))
			w := kit.Serve(s, r)
			w.Summary()
			require.Equal(t, "data: 1\n\n", w.Body.String())
			require.True(t, w.Ended)
		}
		require.Equal(t, 1, said.Count("WriteTimeout ends modern requests"))
	})
}

// HTTP/2 resets a stream when its deadline passes, also if nothing is being written. So no deadline is left set.
func TestASilentModernStreamOfHTTP2(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		srv := modernServer(t, rejoin.Config{KeepAlive: -1}, func(w http.ResponseWriter, _ *http.Request) {
			begins(w)
			kit.Elapse(time.Hour)
			puts(t, w, "data: 1\n\n")
			kit.Elapse(time.Hour)
			_, _ = io.WriteString(w, "data: 2\n\n")
			kit.Elapse(time.Hour)
		})
		protocols := &http.Protocols{}
		protocols.SetUnencryptedHTTP2(true)
		lis := &kit.Pipes{Conns: make(chan net.Conn), Closed: make(chan struct{})}
		hs := &http.Server{Handler: stdadapter.New(srv), Protocols: protocols, WriteTimeout: time.Second, ReadTimeout: time.Second}
		transport := &http.Transport{Protocols: protocols, DialContext: func(context.Context, string, string) (net.Conn, error) { return lis.Dial(), nil }}
		go func() { _ = hs.Serve(lis) }()
		defer func() { srv.Close(); hs.Close(); transport.CloseIdleConnections() }()
		r := kit.Request(t, http.MethodPost, kit.ModernPing)
		r.URL.Scheme, r.URL.Host = "http", "127.0.0.1"
		res, err := transport.RoundTrip(r)
		require.NoError(t, err)
		require.Equal(t, 2, res.ProtoMajor)
		body, _ := kit.ReadAll(t, res)
		require.Equal(t, "data: 1\n\ndata: 2\n\n", body)
	})
}

// Invariant 1, for SDKs that write from goroutines of tools: only the goroutine inside Serve uses the real writer, and it is not used after the handler
// has returned. What is written later is dropped, and the writer of it gets an error.
func TestLateModernWritesReachNobody(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		release, end := make(chan struct{}), make(chan struct{})
		var late []error
		c := modernClient(t, rejointest.Config{Handler: func(s *rejoin.Server) http.Handler {
			h := stdadapter.New(s)
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				cw := &kit.CheckedWriter{ResponseWriter: w, T: t, Owner: kit.Goroutine()}
				h.ServeHTTP(cw, r)
				cw.Mu.Lock()
				defer cw.Mu.Unlock()
				cw.Over = true
			})
		}}, func(w http.ResponseWriter, r *http.Request) {
			begins(w)
			var tools sync.WaitGroup
			for range 8 {
				tools.Go(func() {
					for range 20 {
						puts(t, w, "data: {\"method\":\"in time\"}\n\n")
						kit.Elapse(time.Second)
					}
				})
			}
			go func() {
				defer close(end)
				<-release
				w.Header().Set("X-Late", "1")
				w.WriteHeader(http.StatusTeapot)
				n, err := io.WriteString(w, "data: late\n\n")
				late = append(late, err, http.NewResponseController(w).Flush())
				if n != 0 {
					t.Errorf("%d bytes", n)
				}
			}()
			tools.Wait()
		})
		body, res := kit.Post(t, c, kit.ModernPing)
		require.Equal(t, http.StatusOK, res.StatusCode)
		require.Equal(t, strings.TrimSpace(strings.Repeat("-:in time ", 160)), strings.ReplaceAll(kit.EventsSummary(body), "strange(data: {\"method\":\"in time\"})", "-:in time"))
		close(release)
		<-end
		synctest.Wait()
		require.Len(t, late, 2)
		for _, err := range late {
			require.ErrorContains(t, err, "rejoin: the handler has returned")
		}
	})
}

// timed records writes and flushes without a deadline of ten seconds.
type timed struct {
	*kit.Response
	deadline atomic.Pointer[time.Time]
	unbound  []string
}

func (w *timed) SetWriteDeadline(d time.Time) error { w.deadline.Store(&d); return nil }

func (w *timed) note(what string) {
	if d := w.deadline.Load(); d == nil || time.Until(*d) != 10*time.Second {
		w.unbound = append(w.unbound, what)
	}
}

func (w *timed) Write(p []byte) (int, error) { w.note("Write"); return w.Response.Write(p) }
func (w *timed) FlushError() error           { w.note("Flush"); return nil }

// Each write and each flush has a deadline of its own, there is none in between, and the end of the response has one.
func TestWriteDeadlinesOfAModernResponse(t *testing.T) {
	for name, head := range map[string]func(http.ResponseWriter){
		"a stream": begins, "JSON": func(w http.ResponseWriter) { w.Header().Set("Content-Type", "application/json") }, "nothing": nil,
	} {
		kit.Bubble(t, func(t *testing.T) {
			w := &timed{Response: &kit.Response{Head: http.Header{}}}
			s := modernServer(t, rejoin.Config{WriteTimeout: 10 * time.Second}, func(rw http.ResponseWriter, _ *http.Request) {
				if head == nil {
					return
				}
				head(rw)
				for range 3 {
					kit.Elapse(time.Minute) // with comments, if it is a stream
					_, _ = io.WriteString(rw, "data: 1\n\n")
					lifted := w.deadline.Load().IsZero()
					kit.Elapse(time.Second)
					if err := http.NewResponseController(rw).Flush(); err != nil || !lifted || !w.deadline.Load().IsZero() {
						t.Errorf("%v, or a deadline was left behind", err)
					}
				}
			})
			s.Serve(w, kit.Request(t, http.MethodPost, kit.ModernPing))
			require.Empty(t, w.unbound, name)
			require.Equal(t, 10*time.Second, time.Until(*w.deadline.Load()), name)
		})
	}
}
