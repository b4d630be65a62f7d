package modern_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// modernServer makes a server of both eras, with a handler for the modern one.
func modernServer(t *testing.T, cfg rejoin.Config, h http.HandlerFunc) *rejoin.Server {
	t.Helper()
	cfg.Eras = rejoin.EraBoth
	return kit.NewServer(t, kit.BothEras{Fake: &kit.Fake{}, Handler: h}, cfg)
}

// modernClient is a client of such a server, over a network.
func modernClient(t *testing.T, cfg rejointest.Config, h http.HandlerFunc) *rejointest.Client {
	t.Helper()
	cfg.Server.Eras = rejoin.EraBoth
	return rejointest.New(t, kit.BothEras{Fake: &kit.Fake{}, Handler: h}, cfg)
}

// puts writes and flushes.
func puts(t *testing.T, w http.ResponseWriter, text string) {
	_, err := io.WriteString(w, text)
	if err == nil {
		err = http.NewResponseController(w).Flush()
	}
	if err != nil {
		t.Errorf("%q: %v", text, err)
	}
}

// begins begins a stream.
func begins(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
}

// A stream of the modern era has the header of all our streams, whatever the SDK sets. What is flushed reaches the client at once. After
// Config.KeepAlive without a write it gets a comment, at exactly that time, but never within an event.
func TestAModernStream(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		s := modernServer(t, rejoin.Config{KeepAlive: 20 * time.Second}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "Text/Event-Stream; charset=utf-8")
			w.Header().Set("Cache-Control", "no-cache")
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			kit.Elapse(15 * time.Second)
			puts(t, w, "data: {\"method\":\"a\"}\n\n")
			kit.Elapse(41 * time.Second)
			puts(t, w, "data: {\"meth")
			kit.Elapse(time.Hour)
			puts(t, w, "od\":\"b\"}\n")
			kit.Elapse(time.Hour)
			puts(t, w, "\n")
			kit.Elapse(20*time.Second + 1)
		})
		w := kit.Serve(s, kit.Request(t, http.MethodPost, kit.ModernPing))
		kit.RequireHead(t, w.Head, "Content-Type", "Text/Event-Stream; charset=utf-8", "Cache-Control", "no-cache, no-transform", "X-Accel-Buffering", "no")
		began := time.Now()
		for _, at := range []struct {
			after time.Duration
			body  string
		}{
			{0, ""},
			{15*time.Second - 1, ""},
			{15 * time.Second, "data: {\"method\":\"a\"}\n\n"},
			{35*time.Second - 1, ""},
			{35 * time.Second, ": \n\n"},
			{55*time.Second - 1, ""},
			{55 * time.Second, ": \n\n"},
			{56 * time.Second, "data: {\"meth"},
			{56*time.Second + 2*time.Hour - 1, "od\":\"b\"}\n"},
			{56*time.Second + 2*time.Hour, "\n"},
			{76*time.Second + 2*time.Hour - 1, ""},
			{76*time.Second + 2*time.Hour, ": \n\n"},
		} {
			kit.Elapse(at.after - time.Since(began))
			w.Summary() // until all goroutines are blocked
			w.Mu.Lock()
			require.Equal(t, at.body, w.Body.String(), "%v", at.after)
			require.Equal(t, w.Body.Len(), w.Flushed)
			w.Body.Reset()
			w.Flushed = 0
			w.Mu.Unlock()
		}
		require.Equal(t, "200 open", strings.Join(strings.Fields(w.Summary()), " "))
		kit.Elapse(1)
		require.Equal(t, "200 ended", strings.Join(strings.Fields(w.Summary()), " "))
	})
}

// Comments are only for streams of events that the client reads, and only between two events.
func TestWhereModernCommentsGo(t *testing.T) {
	type head map[string]string
	sse := head{"Content-Type": "text/event-stream"}
	for _, test := range []struct {
		name   string
		head   head
		status int
		writes []string
		cfg    rejoin.Config
		hide   bool // the writer hides Flush
		want   bool
	}{
		{"a stream that has begun", sse, 200, nil, rejoin.Config{}, false, true},
		{"after an event", sse, 200, []string{"data: 1\n\n"}, rejoin.Config{}, false, true},
		{"without a status", sse, 0, []string{"data: 1\n\n"}, rejoin.Config{}, false, true},
		{"after an event, in pieces", sse, 200, strings.Split("data: 1\n\n", ""), rejoin.Config{}, false, true},
		{"after CR LF", sse, 200, []string{"data: 1\r\n\r\n"}, rejoin.Config{}, false, true},
		{"after CR LF, in pieces", sse, 200, strings.Split("data: 1\r\n\r\n", ""), rejoin.Config{}, false, true},
		{"after CR LF, in two", sse, 200, []string{"data: 1\r\n\r", "\n"}, rejoin.Config{}, false, true},
		{"after CR", sse, 200, []string{"data: 1\r\r"}, rejoin.Config{}, false, true},
		{"after mixed ends", sse, 200, []string{"data: 1\n\r\n"}, rejoin.Config{}, false, true},
		{"after several", sse, 200, []string{"data: 1\n\ndata: 2\n\n: x\n\n"}, rejoin.Config{}, false, true},

		{"in a line", sse, 200, []string{"data: 1"}, rejoin.Config{}, false, false},
		{"after a line", sse, 200, []string{"data: 1\n"}, rejoin.Config{}, false, false},
		{"after a line with CR LF", sse, 200, []string{"data: 1\r\n"}, rejoin.Config{}, false, false},
		{"after a line with CR LF, in pieces", sse, 200, strings.Split("data: 1\r\n", ""), rejoin.Config{}, false, false},
		{"after a line with CR", sse, 200, []string{"data: 1\r"}, rejoin.Config{}, false, false},
		{"in a second event", sse, 200, []string{"data: 1\n\n", "id: 7\n"}, rejoin.Config{}, false, false},
		{"no head", sse, -1, nil, rejoin.Config{}, false, false},
		{"JSON", head{"Content-Type": "application/json"}, 200, []string{"{\n\n"}, rejoin.Config{}, false, false},
		{"text", head{"Content-Type": "text/event-streams"}, 200, []string{"{\n\n"}, rejoin.Config{}, false, false},
		{"no type", nil, 200, []string{"data: 1\n\n"}, rejoin.Config{}, false, false},
		{"counted bytes", head{"Content-Type": "text/event-stream", "Content-Length": "9"}, 200, []string{"data: 1\n\n"}, rejoin.Config{}, false, false},
		{"encoded", head{"Content-Type": "text/event-stream", "Content-Encoding": "gzip"}, 200, []string{"data: 1\n\n"}, rejoin.Config{}, false, false},
		{"no content", sse, 204, nil, rejoin.Config{}, false, false},
		{"switched off", sse, 200, nil, rejoin.Config{KeepAlive: -1}, false, false},
		{"cannot be flushed", sse, 200, nil, rejoin.Config{Logger: kit.QuietLogger()}, true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				s := modernServer(t, test.cfg, func(w http.ResponseWriter, r *http.Request) {
					for name, value := range test.head {
						w.Header().Set(name, value)
					}
					if test.status > 0 {
						w.WriteHeader(test.status)
					}
					for _, text := range test.writes {
						_, err := io.WriteString(w, text)
						if err != nil {
							t.Error(err)
						}
					}
					_, flushes := w.(http.Flusher)
					if flushes == test.hide {
						t.Errorf("it offers Flush: %v", flushes)
					}
					<-r.Context().Done()
				})
				res := &kit.Response{Head: http.Header{}}
				var w http.ResponseWriter = res
				if test.hide {
					w = struct{ http.ResponseWriter }{res}
				}
				r := kit.Request(t, http.MethodPost, kit.ModernPing)
				go s.Serve(w, r)
				kit.Elapse(59 * time.Second)
				res.Summary() // until all goroutines are blocked
				res.Mu.Lock()
				defer res.Mu.Unlock()
				require.Equal(t, test.want, strings.HasSuffix(res.Body.String(), strings.Join(test.writes, "")+strings.Repeat(": \n\n", 3)), res.Body.String())
				if !test.want {
					require.Equal(t, strings.Join(test.writes, ""), res.Body.String())
				}
			})
		})
	}
}

// The handler decides about a plain answer, its header and its body. It can see and remove what outer middleware has put into the header.
func TestAPlainModernAnswer(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		big := strings.Repeat("x", 1<<20)
		outer := func(s *rejoin.Server) http.Handler {
			h := stdadapter.New(s)
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Vary", "Origin")
				w.Header().Set("X-Outer", "1")
				h.ServeHTTP(w, r)
			})
		}
		var do http.HandlerFunc
		c := modernClient(t, rejointest.Config{Handler: outer}, func(w http.ResponseWriter, r *http.Request) { do(w, r) })
		for name, test := range map[string]struct {
			do     http.HandlerFunc
			status int
			body   string
			length int64
			head   []string // name and value in turn
		}{
			"with its own length": {func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", fmt.Sprint(len(big)))
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("Cache-Control", "private")
				n, err := io.WriteString(w, big)
				assert.NoError(t, err)
				assert.Equal(t, len(big), n)
			}, 200, big, 1 << 20, []string{"Cache-Control", "private", "X-Outer", "1", "Content-Type", "application/json", "X-Accel-Buffering", ""}},
			"a short one": {func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusNotFound)
				w.WriteHeader(http.StatusOK) // superfluous
				_, _ = io.WriteString(w, "not here")
			}, 404, "not here", 8, nil},
			"flushed": {func(w http.ResponseWriter, _ *http.Request) {
				puts(t, w, "a")
				puts(t, w, "b")
			}, 200, "ab", -1, nil},
			"nothing at all": {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Mine", "2") }, 200, "", 0, []string{"X-Mine", "2"}},
			"no content": {func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(http.StatusNoContent)
				_, err := io.WriteString(w, "x")
				assert.ErrorIs(t, err, http.ErrBodyNotAllowed)
				assert.NoError(t, r.Context().Err(), "that harms nobody")
			}, 204, "", 0, nil},
			"more than it said": {func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Length", "1")
				_, err := io.WriteString(w, "a")
				assert.NoError(t, err)
				_, err = io.WriteString(w, "b")
				assert.ErrorIs(t, err, http.ErrContentLength)
				assert.NoError(t, r.Context().Err())
			}, 200, "a", 1, nil},
			"early hints": {func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusEarlyHints)
				w.WriteHeader(http.StatusAccepted)
			}, 202, "", 0, nil},
			"another head": {func(w http.ResponseWriter, _ *http.Request) {
				assert.Equal(t, "Origin", w.Header().Get("Vary"))
				w.Header().Add("Vary", "Accept")
				w.Header().Del("X-Outer")
				w.WriteHeader(http.StatusOK)
				w.Header().Set("X-Outer", "too late")
			}, 200, "", 0, []string{"X-Outer", "", "Vary", "Origin,Accept"}},
		} {
			do = test.do
			body, res := kit.Post(t, c, kit.ModernPing)
			require.Equal(t, test.status, res.StatusCode, name)
			require.Equal(t, test.body, body, name)
			require.Equal(t, test.length, res.ContentLength, name)
			for i := 0; i < len(test.head); i += 2 {
				require.Equal(t, test.head[i+1], strings.Join(res.Header.Values(test.head[i]), ","), "%s: %s", name, test.head[i])
			}
		}
	})
}
