package cluster_test

import (
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// away lets nothing through between all processes and the engine.
func (w *world) away(link clustertest.Link) {
	for _, p := range w.processes {
		p.link.SetLink(link)
	}
}

// opensWith is a situation in which the owner is dead and App.Open of the process that is asked does that.
func opensWith(open func(*http.Request, *rejoin.Session, []byte) error) func(*testing.T, *world, func(int) *watched) {
	return func(_ *testing.T, w *world, of func(int) *watched) {
		w.kill(0)
		of(1).opens(open)
	}
}

const storeTimeout = time.Second // of each process of a world

var situations = []situation{
	{
		name: "the session is mine", at: 0, want: isServed, alive: true,
		bring: func(*testing.T, *world, func(int) *watched) {},
	},
	{
		name: "the owner is alive", at: 1, want: isServed, alive: true,
		bring: func(*testing.T, *world, func(int) *watched) {},
	},
	{
		name: "the owner is alive, and known", at: 1, want: isServed, alive: true,
		bring: func(t *testing.T, w *world, _ func(int) *watched) {
			t.Helper()
			knows(t, w, 1)
		},
	},
	{
		name: "the owner refuses connections", at: 1, want: isUnreachable, within: lease, alive: true,
		bring: func(t *testing.T, w *world, _ func(int) *watched) {
			t.Helper()
			knows(t, w, 1)
			unreachable(w)
		},
	},
	{
		name: "the owner hangs", at: 1, want: isOwnerLost, within: lease, alive: true,
		bring: func(t *testing.T, w *world, _ func(int) *watched) {
			t.Helper()
			knows(t, w, 1)
			w.net.Hang("0", true)
		},
	},
	{
		name: "the owner hangs, and is not known", at: 1, want: isOwnerLost, within: lease, alive: true,
		bring: func(_ *testing.T, w *world, _ func(int) *watched) {
			w.net.Hang("0", true)
		},
	},
	{
		name: "a mesh answers 404 in place of the owner", at: 1, want: isLater, alive: true,
		bring: func(_ *testing.T, w *world, _ func(int) *watched) {
			w.net.Serve("0", http.NotFoundHandler())
		},
	},
	{
		name: "the owner has died just now", at: 1, want: isUnreachable, within: lease,
		bring: func(_ *testing.T, w *world, _ func(int) *watched) { dies(w) },
	},
	{
		name: "the owner died a lease ago", at: 1, want: isAdopted.but(3, heldNew).but(4, heldAt1), within: lease,
		bring: func(_ *testing.T, w *world, _ func(int) *watched) {
			dies(w)
			elapse(lease)
		},
	},
	{
		name: "the owner is dead", at: 1, want: isAdopted,
		bring: func(_ *testing.T, w *world, _ func(int) *watched) {
			dies(w)
			elapse(lease * 5 / 3) // with the third at which its last renewal was seen, and that until the next look
		},
	},
	{
		name: "the owner was released", at: 1, want: isAdopted.but(4, "200 sse primer@1 2:error(-32000,2) shutdown ended"),
		bring: func(_ *testing.T, w *world, _ func(int) *watched) {
			w.processes[0].Close()
			elapse(100 * time.Millisecond)
		},
	},
	{
		name: "the owner was superseded", at: 1, want: isAdopted,
		bring: func(t *testing.T, w *world, _ func(int) *watched) {
			t.Helper()
			dies(w)
			w.addAt(options{}, "http://0")
		},
	},
	{
		name: "the owner was superseded, and known", at: 1, want: isAdopted,
		bring: func(t *testing.T, w *world, _ func(int) *watched) {
			t.Helper()
			knows(t, w, 1)
			dies(w)
			w.addAt(options{}, "http://0")
		},
	},
	{
		name: "App.Open returns an *Error", at: 1, want: isGone,
		bring: opensWith(func(*http.Request, *rejoin.Session, []byte) error { return rejoin.Errorf(-32042, "no") }),
	},
	{
		name: "App.Open returns another error", at: 1, want: isLater,
		bring: opensWith(func(*http.Request, *rejoin.Session, []byte) error { return errOpen }),
	},
	{
		name: "App.Open panics", at: 1, want: isLater,
		bring: opensWith(func(*http.Request, *rejoin.Session, []byte) error { panic("oops") }),
	},
	{
		name: "App.Open ends its goroutine", at: 1, want: isLater,
		bring: opensWith(func(*http.Request, *rejoin.Session, []byte) error {
			runtime.Goexit()
			return nil
		}),
	},
	{
		name: "App.Open hangs", at: 1, want: isLater, within: 5*time.Second + 10*time.Millisecond,
		bring: opensWith(func(r *http.Request, _ *rejoin.Session, _ []byte) error {
			<-r.Context().Done()
			kit.Elapse(lease)
			return errOpen
		}),
	},
	{
		name: "App.Open fails for the third time", at: 1, want: isGone,
		bring: func(t *testing.T, w *world, of func(int) *watched) {
			t.Helper()
			opensWith(func(*http.Request, *rejoin.Session, []byte) error { return errOpen })(t, w, of)
			for range 2 {
				require.Equal(t, later, w.ping(t, 1, w.session()))
			}
		},
	},
	{
		name: "the owner is dead, and its record of an unknown format", at: 1, want: isLater, alive: true,
		bring: func(t *testing.T, w *world, _ func(int) *watched) {
			t.Helper()
			found, err := w.engine.Find(t.Context(), kit.KeyOf(w.session()), cluster.Process{})
			require.NoError(t, err)
			record := *found.Record
			record.Format = 2
			require.NoError(t, w.engine.Put(t.Context(), &record, time.Hour))
			w.kill(0)
		},
	},
	{
		name: "the session has ended", at: 1, want: isGone,
		bring: func(t *testing.T, w *world, _ func(int) *watched) {
			t.Helper()
			w.Delete()
		},
	},
	{
		name: "there is no record, and the count stands", at: 1, want: isGone,
		bring: func(t *testing.T, w *world, _ func(int) *watched) {
			t.Helper()
			w.Delete()
			elapse(15 * time.Minute)
		},
	},
	{
		name: "there is no record, and the count is gone", at: 1, want: isLater, alive: true,
		bring: func(_ *testing.T, w *world, _ func(int) *watched) {
			w.engine.Forget()
		},
	},
	{
		name: "the engine refuses connections", at: 1, want: isLater, alive: true,
		bring: func(_ *testing.T, w *world, _ func(int) *watched) { w.away(clustertest.Refused) },
	},
	{
		name: "the engine is silent", at: 1, want: isLater, within: storeTimeout, alive: true,
		bring: func(_ *testing.T, w *world, _ func(int) *watched) {
			w.away(clustertest.Silent)
		},
	},
	{
		name: "no answer of the engine arrives", at: 1, want: isLater, within: storeTimeout, alive: true,
		bring: func(_ *testing.T, w *world, _ func(int) *watched) {
			w.away(clustertest.Deaf)
		},
	},
	{
		name: "the engine has been away for long", at: 1, want: isLater, alive: true,
		bring: func(_ *testing.T, w *world, _ func(int) *watched) {
			w.away(clustertest.Silent)
			elapse(5 * lease)
		},
	},
	{
		name: "the engine is away, and the owner known", at: 1, want: isServed.but(3, "200 sse comment open"), within: time.Second, alive: true,
		bring: func(t *testing.T, w *world, _ func(int) *watched) {
			t.Helper()
			knows(t, w, 1)
			w.away(clustertest.Silent)
		},
	},
	{
		name: "my lease ran out", at: 0, want: isLater, alive: true,
		bring: func(_ *testing.T, w *world, _ func(int) *watched) {
			w.processes[0].link.SetLink(clustertest.Silent)
			elapse(lease)
		},
	},
	{
		name: "the lease of the owner ran out, and mine too", at: 1, want: isLater, alive: true,
		bring: func(t *testing.T, w *world, _ func(int) *watched) {
			t.Helper()
			knows(t, w, 1)
			w.away(clustertest.Silent)
			elapse(lease)
		},
	},
	{
		name: "MaxSessions is exceeded by half", at: 1, want: isLater,
		bring: func(t *testing.T, w *world, _ func(int) *watched) {
			t.Helper()
			var lost []string
			for range 3 {
				lost = append(lost, w.open(t, 0))
			}
			for range 3 {
				w.open(t, 1)
			}
			w.kill(0)
			for _, id := range lost {
				require.Equal(t, served, w.ping(t, 1, id))
			}
		},
	},
}
