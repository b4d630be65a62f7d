package modern_test

import (
	"context"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// streaming is a modern handler that streams until its context ends or the test calls release. causes returns why each stream ended, by its name; nil:
// release.
func streaming(t *testing.T) (h http.HandlerFunc, release chan struct{}, causes func() map[string]error) {
	var mu sync.Mutex
	all := map[string]error{}
	release = make(chan struct{})
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Silent") == "" {
			begins(w)
			puts(t, w, "data: {\"method\":\"begun\"}\n\n")
		}
		select {
		case <-release:
			puts(t, w, "data: {\"result\":1}\n\n")
		case <-r.Context().Done():
		}
		mu.Lock()
		defer mu.Unlock()
		all[r.Header.Get("Name")] = context.Cause(r.Context())
	}, release, func() map[string]error { mu.Lock(); defer mu.Unlock(); return maps.Clone(all) }
}

// A subscription of the modern era does not end by itself. A drain ends it cleanly at its start, like idle standalone streams, and does not wait for
// it. It waits for the other requests.
func TestADrainEndsModernListeners(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h, release, causes := streaming(t)
		c := modernClient(t, rejointest.Config{}, h)
		listener := c.Do(kit.Request(t, http.MethodPost, kit.ModernListenBody, "Name", "listener"))
		working := c.Do(kit.Request(t, http.MethodPost, kit.ModernPing, "Name", "working"))
		require.EqualValues(t, 2, c.Server().Stats().Connections)
		began := time.Now()
		done := kit.Drain(t, c.Server(), 0)
		body, _ := kit.ReadAll(t, listener)
		require.Equal(t, "data: {\"method\":\"begun\"}\n\n", body)
		require.Equal(t, map[string]error{"listener": rejoin.ErrShutdown}, causes())
		require.Zero(t, time.Since(began))
		kit.Elapse(time.Hour / 2)
		require.Empty(t, done)
		require.EqualValues(t, 1, c.Server().Stats().Connections)
		for _, body := range []string{kit.ModernPing, kit.ModernListenBody, kit.ModernNotification} {
			_, res := kit.Post(t, c, body)
			require.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
			require.Equal(t, "1", res.Header.Get("Retry-After"))
		}
		close(release)
		body, _ = kit.ReadAll(t, working)
		require.True(t, strings.HasSuffix(body, "data: {\"result\":1}\n\n"))
		require.NoError(t, <-done)
		require.NoError(t, causes()["working"])
		require.Zero(t, c.Server().Stats().Connections)
	})
}

// With subscriptions alone a drain has nothing to wait for, not even for a handler that ignores its context.
func TestADrainWaitsForNoModernListener(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		s := modernServer(t, rejoin.Config{}, func(w http.ResponseWriter, _ *http.Request) {
			begins(w)
			kit.Elapse(time.Hour)
		})
		w := kit.Serve(s, kit.Request(t, http.MethodPost, kit.ModernListenBody))
		require.NoError(t, <-kit.Drain(t, s, 0))
		require.Equal(t, "200 sse open", w.Summary())
		kit.Elapse(time.Hour)
	})
}

// A request that comes while a drain begins is either refused or waited for. A subscription is refused or ended.
func TestModernRequestsAndTheBeginningOfADrain(t *testing.T) {
	for range 20 {
		kit.Bubble(t, func(t *testing.T) {
			var ended atomic.Int64
			s := modernServer(t, rejoin.Config{}, func(_ http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Name") == "listener" {
					<-r.Context().Done()
				}
				kit.Elapse(time.Second)
				ended.Add(1)
			})
			began := make(chan error)
			listener, working := &kit.Response{Head: http.Header{}}, &kit.Response{Head: http.Header{}}
			listens, works := kit.Request(t, http.MethodPost, kit.ModernListenBody, "Name", "listener"), kit.Request(t, http.MethodPost, kit.ModernPing)
			go s.Serve(listener, listens)
			go s.Serve(working, works)
			go func() { began <- s.Drain(context.Background()) }()
			require.NoError(t, <-began)
			kit.Elapse(time.Minute)
			for _, w := range []*kit.Response{listener, working} {
				w.Summary()
				require.Contains(t, []int{http.StatusOK, http.StatusServiceUnavailable}, w.Status)
				if w.Head.Get("Retry-After") == "" {
					ended.Add(-1)
				}
			}
			require.Zero(t, ended.Load(), "each was refused or has ended")
			require.Zero(t, s.Stats().Connections)
		})
	}
}

// Close cancels them all. If a handler returns without an answer, its client is told why, if that is still possible.
func TestCloseEndsModernRequests(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h, _, causes := streaming(t)
		s := modernServer(t, rejoin.Config{}, h)
		all := map[string]*kit.Response{}
		for name, body := range map[string]string{"listener": kit.ModernListenBody, "working": kit.ModernPing, "telling": kit.ModernNotification} {
			all[name] = kit.Serve(s, kit.Request(t, http.MethodPost, body, "Name", name))
		}
		silent := kit.Serve(s, kit.Request(t, http.MethodPost, kit.ModernPing, "Name", "silent", "Silent", "yes"))
		s.Close()
		for name, w := range all {
			require.Equal(t, "200 sse strange(data: {\"method\":\"begun\"}) ended", strings.Replace(w.Summary(), "-:begun", "strange(data: {\"method\":\"begun\"})", 1), name)
			require.Equal(t, rejoin.ErrShutdown, causes()[name], name)
		}
		require.Equal(t, `503 error(-32000,"mine") shutdown ended`, silent.Summary())
		require.Equal(t, "application/json", silent.Head.Get("Content-Type"))
		require.Equal(t, rejoin.ErrShutdown, causes()["silent"])
		require.Equal(t, `503 error(-32000,"mine") ended`, kit.Serve(s, kit.Request(t, http.MethodPost, kit.ModernListenBody)).Summary())
		synctest.Wait()
		require.Zero(t, s.Stats().Connections)
	})
}

// A drain whose time is over ends the requests that it has waited for, and counts them.
func TestADrainThatRunsOutOfTimeEndsModernRequests(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h, _, causes := streaming(t)
		s := modernServer(t, rejoin.Config{}, h)
		for range 3 {
			kit.Serve(s, kit.Request(t, http.MethodPost, kit.ModernListenBody, "Name", "listener"))
		}
		w := kit.Serve(s, kit.Request(t, http.MethodPost, kit.ModernPing, "Name", "working"))
		require.Equal(t, &rejoin.DrainError{Running: 1}, <-kit.Drain(t, s, time.Second))
		require.True(t, strings.HasSuffix(w.Summary(), " ended"))
		require.Equal(t, map[string]error{"listener": rejoin.ErrShutdown, "working": rejoin.ErrShutdown}, causes())
	})
}
