package streams_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// reader is a client that reads everything, and keeps only its position. If its stream ends before the response, it polls when it was told to.
type reader struct {
	head http.Header

	mu      sync.Mutex
	last    string // the newest event id
	seq     uint64 // of the last event with data
	wrong   string
	retry   time.Duration
	whole   bool // the response has come
	connect int  // the number of connections
}

func (r *reader) Header() http.Header { return r.head }
func (r *reader) WriteHeader(int)     {}
func (r *reader) Flush()              {}

// Write reads whole events: rejoin does not write parts of them.
func (r *reader) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id, data := "", false
	for line := range bytes.Lines(p) {
		line = bytes.TrimRight(line, "\n")
		switch name, value, _ := bytes.Cut(line, []byte(": ")); string(name) {
		case "id":
			id = string(value)
		case "retry":
			ms, _ := strconv.Atoi(string(value))
			r.retry = time.Duration(ms) * time.Millisecond
		case "data":
			data = len(value) > 0
			r.whole = r.whole || bytes.Contains(value, []byte(`"result"`))
		case "":
			if data {
				r.seq++
				if want := "." + strconv.FormatUint(r.seq, 10); !strings.HasSuffix(id, want) && r.wrong == "" {
					r.wrong = fmt.Sprintf("event %s came in place of %s", id, want)
				}
			}
			if id != "" {
				r.last = id
			}
			id, data = "", false
		}
	}
	return len(p), nil
}

// follows reads one stream to its end.
func (r *reader) follows(s *rejoin.Server, first *http.Request, again func(last string) *http.Request) {
	for req := first; ; {
		r.head = http.Header{}
		s.Serve(r, req)
		r.mu.Lock()
		r.connect++
		done, last, wait := r.whole || r.wrong != "", r.last, r.retry
		r.mu.Unlock()
		if done || first.Context().Err() != nil {
			return
		}
		kit.Elapse(wait)
		req = again(last).WithContext(first.Context())
	}
}

// The log of a client that reads is never full: it may be sent any number of events, in each version, on the stream of a call and on the standalone one.
// The server keeps no more than the session may.
func TestAClientThatReadsIsNeverFull(t *testing.T) {
	const events, share = 1_000_000 / kit.Fewer, 256 << 10
	for _, version := range []string{kit.Polling, "2025-06-18", "2025-03-26"} {
		for _, standalone := range []bool{false, true} {
			t.Run(fmt.Sprint(version, " standalone ", standalone), func(t *testing.T) {
				kit.Bubble(t, func(t *testing.T) {
					app, next := kit.ManualTools()
					store := eventstore.NewMemory(eventstore.MemoryConfig{SessionBytes: share, BacklogBytes: share / 4})
					s := kit.NewServer(t, app, rejoin.Config{Store: store, KeepAlive: -1, Logger: kit.QuietLogger()})
					id := kit.Serve(s, kit.Request(t, http.MethodPost, strings.Replace(kit.Initialize, kit.Polling, version, 1))).Head.Get("Mcp-Session-Id")
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					req := kit.InSession(t, id, kit.CallBody("1", "{}"))
					call := new(reader)
					again := func(last string) *http.Request { return get(t, id, last) }
					go call.follows(s, req, again)
					tool := next()
					r, send := call, func() error { return tool.Notify("notifications/x", nil) }
					if standalone {
						r = new(reader)
						go r.follows(s, get(t, id, "").WithContext(ctx), again)
						synctest.Wait()
						send = func() error { return tool.Session().Notify(ctx, "notifications/x", nil) }
					}
					heap, held := uint64(0), int64(0)
					for i := range events {
						require.NoError(t, send(), "event %d", i)
						if i%200 == 0 { // only as fast as the client reads
							kit.Elapse(2 * time.Millisecond)
							bytes, _ := store.Usage()
							held = max(held, bytes)
						}
						if i == events/10 {
							heap = kit.HeapAlloc()
						}
					}
					kit.Elapse(time.Second)
					synctest.Wait()
					kit.RequireFlat(t, heap, 2<<20, "nine tenths of the events")
					require.LessOrEqual(t, held, int64(share))
					require.Empty(t, r.wrong)
					require.EqualValues(t, events, r.seq)
					tool.Returns("done")
					kit.Elapse(time.Second)
					synctest.Wait()
					require.True(t, call.whole)
					require.Zero(t, s.Stats().Full+s.Stats().Expired+s.Stats().Doubted)
					t.Log("connections:", r.connect)
					cancel()
					synctest.Wait()
				})
			})
		}
	}
}
