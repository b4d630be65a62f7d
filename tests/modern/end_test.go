package modern_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// A modern handler that panics does not affect others. Its client gets a JSON-RPC error, as the whole answer or as an event. If that is no longer
// possible, the connection breaks, so that a part is not taken for the whole, also if a middleware catches the panic.
func TestAModernHandlerThatPanics(t *testing.T) {
	for _, test := range []struct {
		name   string
		body   string // "": a request
		do     func(w http.ResponseWriter)
		want   string
		broken bool
		says   string // what the log says
	}{
		{"before the head", "", func(w http.ResponseWriter) {
			begins(dropHead{w})
			panic("secret")
		}, `500 application/json {"jsonrpc":"2.0","id":"mine","error":{"code":-32603,"message":"internal error"}}`, false, "panic=secret"},
		{"of a notification", kit.ModernNotification, func(http.ResponseWriter) { panic("secret") },
			`500 application/json {"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"internal error"}}`, false, "panic=secret"},
		{"with its goroutine's end", "", func(http.ResponseWriter) { runtime.Goexit() },
			`500 application/json {"jsonrpc":"2.0","id":"mine","error":{"code":-32603,"message":"internal error"}}`, false, "runtime.Goexit"},
		{"with a head that is none", "", func(w http.ResponseWriter) { w.WriteHeader(42) },
			`500 application/json {"jsonrpc":"2.0","id":"mine","error":{"code":-32603,"message":"internal error"}}`, false, "invalid WriteHeader code 42"},
		{"before the first event", "", func(w http.ResponseWriter) {
			begins(w)
			panic("secret")
		}, "200 text/event-stream event: message\n" + `data: {"jsonrpc":"2.0","id":"mine","error":{"code":-32603,"message":"internal error"}}` + "\n\n", false, "panic=secret"},
		{"between two events", "", func(w http.ResponseWriter) {
			begins(w)
			puts(t, w, "data: 1\n\n")
			panic("secret")
		}, "200 text/event-stream data: 1\n\nevent: message\n" + `data: {"jsonrpc":"2.0","id":"mine","error":{"code":-32603,"message":"internal error"}}` + "\n\n", false, "panic=secret"},
		{"within an event", "", func(w http.ResponseWriter) {
			begins(w)
			puts(t, w, "data: 1\n")
			panic("secret")
		}, "200 text/event-stream data: 1\n", true, "panic=secret"},
		{"in the stream of a notification", kit.ModernNotification, func(w http.ResponseWriter) {
			begins(w)
			puts(t, w, "data: 1\n\n")
			panic("secret")
		}, "200 text/event-stream data: 1\n\n", true, "panic=secret"},
		{"within JSON", "", func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			puts(t, w, "{")
			panic("secret")
		}, "200 application/json {", true, "panic=secret"},
		{"on purpose", "", func(w http.ResponseWriter) {
			begins(w)
			puts(t, w, "data: 1\n\n")
			panic(http.ErrAbortHandler)
		}, "200 text/event-stream data: 1\n\n", true, ""},
		{"on purpose within its answer", "", func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			puts(t, w, "{")
			panic(http.ErrAbortHandler)
		}, "200 application/json {", true, ""},
	} {
		for caught, catches := range map[string]bool{"": false, ", and a middleware catches it": true} {
			t.Run(test.name+caught, func(t *testing.T) {
				kit.Bubble(t, func(t *testing.T) {
					said := &kit.Log{}
					var passed any
					c := modernClient(t, rejointest.Config{
						Server: rejoin.Config{Logger: slog.New(slog.NewTextHandler(said, nil))},
						HTTP:   func(s *http.Server) { s.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) },
						Handler: func(s *rejoin.Server) http.Handler {
							h := stdadapter.New(s)
							return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
								defer func() {
									if v := recover(); v != nil {
										if passed = v; !catches {
											panic(v)
										}
									}
								}()
								h.ServeHTTP(w, r)
							})
						},
					}, func(w http.ResponseWriter, r *http.Request) {
						if r.Header.Get("Beside") == "" {
							test.do(w)
							return
						}
						begins(w)
						kit.Elapse(time.Second)
						puts(t, w, "data: 1\n\n")
					})
					beside := c.Do(kit.Request(t, http.MethodPost, kit.ModernPing, "Beside", "yes"))
					legacy := c.Listen()
					body := test.body
					if body == "" {
						body = kit.ModernPing
					}
					res := c.Do(kit.Request(t, http.MethodPost, body))
					got, err := io.ReadAll(res.Body)
					require.NoError(t, res.Body.Close())
					require.Equal(t, test.want, res.Status[:4]+res.Header.Get("Content-Type")+" "+string(got))
					require.Equal(t, test.broken, err != nil, "%v", err)
					if test.broken {
						require.Equal(t, http.ErrAbortHandler, passed)
					} else {
						require.Nil(t, passed)
					}
					require.Len(t, said.All, map[bool]int{true: 1}[test.says != ""], "%s", said.All)
					if test.says != "" {
						require.Contains(t, said.All[0], test.says)
						require.Contains(t, said.All[0], "modern/end_test.go", "the stack is that of the handler")
					}
					require.NotContains(t, string(got), "secret")

					text, _ := kit.ReadAll(t, beside)
					require.Equal(t, "data: 1\n\n", text)
					require.Equal(t, "200 sse primer@0 open", kit.Last(legacy))
					require.EqualValues(t, 1, c.Server().Stats().Connections, "the listener's")
				})
			})
		}
	}
}

// dropHead hides the header of a handler.
type dropHead struct{ http.ResponseWriter }

func (dropHead) WriteHeader(int) {}

// A disconnect cancels a modern request, whatever its handler does. The connection's goroutine ends with the handler.
func TestADisconnectCancelsAModernRequest(t *testing.T) {
	for _, kind := range []string{"waits", "streams", "writes"} {
		t.Run(kind, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				ended := make(chan error, 1)
				c := modernClient(t, rejointest.Config{}, func(w http.ResponseWriter, r *http.Request) {
					if kind != "waits" {
						begins(w)
						puts(t, w, "data: 1\n\n")
					}
					if kind == "writes" {
						for r.Context().Err() == nil {
							_, _ = io.WriteString(w, "data: 2\n\n")
							_ = http.NewResponseController(w).Flush()
							kit.Elapse(time.Second)
						}
					}
					<-r.Context().Done()
					ended <- context.Cause(r.Context())
				})
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				go func() {
					kit.Elapse(10 * time.Second)
					cancel()
				}()
				r := kit.Request(t, http.MethodPost, kit.ModernPing).WithContext(ctx)
				if kind != "waits" {
					res := c.Do(r)
					kit.Elapse(10 * time.Second)
					_ = res.Body.Close()
				} else {
					gone, hangUp := context.WithCancel(context.Background())
					s := c.Server()
					w := kit.Serve(s, kit.Request(t, http.MethodPost, kit.ModernPing).WithContext(gone))
					require.Equal(t, "open", w.Summary())
					hangUp()
					require.Equal(t, "200 ended", w.Summary())
				}
				cause := <-ended
				synctest.Wait()
				if kind != "writes" { // otherwise the write may notice it first
					require.Equal(t, context.Canceled, cause)
				}
				require.Error(t, cause)
				require.Zero(t, c.Server().Stats().Connections)
			})
		})
	}
}

// A client that stops reading delays its handler by WriteTimeout at most: then the write fails, later writes fail at once, and the context has
// ended.
func TestAModernReaderThatStops(t *testing.T) {
	for name, head := range map[string]func(http.ResponseWriter){
		"a stream": begins, "JSON": func(w http.ResponseWriter) { w.Header().Set("Content-Type", "application/json") },
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				type outcome struct {
					err, again, flush, cause error
					took, tookAgain          time.Duration
				}
				ended := make(chan outcome, 1)
				c := modernClient(t, rejointest.Config{Server: rejoin.Config{WriteTimeout: 10 * time.Second}}, func(w http.ResponseWriter, r *http.Request) {
					head(w)
					var o outcome
					began := time.Now()
					_, o.err = io.WriteString(w, strings.Repeat("x", 64<<20))
					o.took = time.Since(began)
					began = time.Now()
					_, o.again = io.WriteString(w, "y")
					o.flush = http.NewResponseController(w).Flush()
					o.tookAgain, o.cause = time.Since(began), context.Cause(r.Context())
					ended <- o
				})
				res := c.Do(kit.Request(t, http.MethodPost, kit.ModernPing))
				o := <-ended
				require.ErrorIs(t, o.err, os.ErrDeadlineExceeded)
				require.Equal(t, 10*time.Second, o.took)
				require.Equal(t, o.err, o.again)
				require.Equal(t, o.err, o.flush)
				require.Error(t, o.cause)
				require.Zero(t, o.tookAgain)
				require.EqualValues(t, 1, c.Server().Stats().WritesTimedOut)
				_ = res.Body.Close()
			})
		})
	}
}

// The deadline is for each piece of a write, not for the whole: a client that reads slowly gets everything.
func TestASlowModernReader(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		text := strings.Repeat("x", 4<<20)
		c := modernClient(t, rejointest.Config{Server: rejoin.Config{WriteTimeout: 10 * time.Second}}, func(w http.ResponseWriter, _ *http.Request) {
			began := time.Now()
			_, err := io.WriteString(w, text)
			if err != nil {
				t.Error(err)
			}
			if time.Since(began) < time.Minute {
				t.Errorf("it took %v only", time.Since(began))
			}
		})
		res := c.Do(kit.Request(t, http.MethodPost, kit.ModernPing))
		defer res.Body.Close()
		got := 0
		for b := make([]byte, 32<<10); ; {
			n, err := io.ReadFull(res.Body, b)
			got += n
			if err != nil {
				break
			}
			kit.Elapse(2 * time.Second)
		}
		require.Equal(t, len(text), got)
	})
}

// deaf is a writer whose writes fail.
type deaf struct{ http.ResponseWriter }

var errDeaf = errors.New("nobody listens")

func (deaf) Write([]byte) (int, error) { return 0, errDeaf }
func (deaf) FlushError() error         { return errDeaf }

// A write that fails ends the context, with the write's error as the cause, also if net/http does not notice.
func TestAModernWriteThatFails(t *testing.T) {
	for name, write := range map[string]func(http.ResponseWriter) error{
		"Write": func(w http.ResponseWriter) error { _, err := io.WriteString(w, "x"); return err },
		"Flush": func(w http.ResponseWriter) error { return http.NewResponseController(w).Flush() },
	} {
		kit.Bubble(t, func(t *testing.T) {
			var err, cause error
			s := modernServer(t, rejoin.Config{}, func(w http.ResponseWriter, r *http.Request) {
				begins(w)
				err = write(w)
				cause = context.Cause(r.Context())
			})
			s.Serve(deaf{&kit.Response{Head: http.Header{}}}, kit.Request(t, http.MethodPost, kit.ModernPing))
			require.ErrorIs(t, err, errDeaf, name)
			require.Equal(t, err, cause, name)
		})
	}
	kit.Bubble(t, func(t *testing.T) {
		var cause error
		s := modernServer(t, rejoin.Config{}, func(w http.ResponseWriter, r *http.Request) {
			begins(w)
			<-r.Context().Done()
			cause = context.Cause(r.Context())
		})
		began := time.Now()
		s.Serve(deaf{&kit.Response{Head: http.Header{}}}, kit.Request(t, http.MethodPost, kit.ModernPing))
		require.ErrorIs(t, cause, errDeaf, "a comment")
		require.Equal(t, 15*time.Second, time.Since(began))
	})
}

// faulty is a writer of a middleware that panics.
type faulty struct{ http.ResponseWriter }

func (faulty) Write([]byte) (int, error) { panic("the middleware's own fault") }

// A panic in a middleware's writer is the middleware's fault. The handler gets an error, and ends with its request.
func TestAWriterThatPanicsUnderAModernHandler(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		var err, cause error
		s := modernServer(t, rejoin.Config{}, func(w http.ResponseWriter, r *http.Request) {
			_, err = io.WriteString(w, "x")
			<-r.Context().Done()
			kit.Elapse(time.Second)
			cause = context.Cause(r.Context())
		})
		began := time.Now()
		require.PanicsWithValue(t, "the middleware's own fault", func() {
			s.Serve(faulty{&kit.Response{Head: http.Header{}}}, kit.Request(t, http.MethodPost, kit.ModernPing))
		})
		require.ErrorContains(t, err, "its response has ended")
		require.ErrorIs(t, cause, context.Canceled)
		require.Equal(t, time.Second, time.Since(began), "Serve has waited for the handler")
		require.Zero(t, s.Stats().Connections)
	})
}
