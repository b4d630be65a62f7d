package cluster_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// altered is an engine whose records are changed on their way to the asking process.
type altered struct {
	cluster.Directory
	mu     sync.Mutex
	change func(*cluster.Record)
}

func (a *altered) set(change func(*cluster.Record)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.change = change
}

func (a *altered) Find(ctx context.Context, session string, by cluster.Process) (cluster.Found, error) {
	found, err := a.Directory.Find(ctx, session, by)
	a.mu.Lock()
	defer a.mu.Unlock()
	if found.Record != nil && a.change != nil {
		record := *found.Record
		a.change(&record)
		found.Record = &record
	}
	return found, err
}

// A process adopts only what it can read. What it cannot read it leaves as it is, for a process that can.
func TestARecordThatCannotBeRead(t *testing.T) {
	for name, change := range map[string]func(*cluster.Record){
		"of a later format": func(r *cluster.Record) { r.Format = 2 },
		"of no format":      func(r *cluster.Record) { r.Format = 0 },
		"damaged":           func(r *cluster.Record) { r.About = r.About[:len(r.About)/2] },
		"empty":             func(r *cluster.Record) { r.About = nil },
		"of another kind":   func(r *cluster.Record) { r.About = []byte(`["x"]`) },
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				dir := &altered{}
				o := options{}
				of := watch(&o)
				w := newWorld(t, o)
				dir.Directory = w.engine
				o.cluster = func(c *rejoin.Cluster) { c.Directory = dir }
				w.add(o)
				call, tool := w.run(t, 1)
				tool.Returns("done")
				w.kill(0)
				dir.set(change)
				for range 5 {
					require.Equal(t, later, w.ping(t, 2, w.session()))
					require.Equal(t, later, strings.Replace(w.ask(t, 2, http.MethodDelete, w.session(), "").Summary(), "null", `"mine"`, 1))
				}
				w.use(2)
				call.Poll()
				require.Equal(t, "200 sse primer@1 retry closed", kit.Last(call), "held")
				require.Zero(t, of(2).times())
				require.Zero(t, w.processes[2].Stats().Adopted)
				require.Positive(t, w.processes[2].log.Count("record of a session"))
				require.Equal(t, served, w.ping(t, 1, w.session()), "a process that can read it")
				w.use(1)
				require.Equal(t, `"done"`, string(call.Result()))
			})
		})
	}
}

// A record has members that this version does not know: it is read without them.
func TestARecordWithMoreThanIsKnown(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		dir := &altered{}
		o := options{}
		w := newWorld(t, o)
		dir.Directory = w.engine
		o.cluster = func(c *rejoin.Cluster) { c.Directory = dir }
		w.add(o)
		w.kill(0)
		dir.set(func(r *cluster.Record) {
			r.About = append(append([]byte(nil), r.About[:len(r.About)-1]...), `,"later":{"x":[1]}}`...)
		})
		require.Equal(t, served, w.ping(t, 2, w.session()))
	})
}

var sessionVerbs = []struct{ method, body string }{
	{http.MethodPost, kit.Ping},
	{http.MethodPost, note},
	{http.MethodPost, `{"jsonrpc":"2.0","id":"q","result":{}}`},
	{http.MethodGet, ""},
	{http.MethodDelete, ""},
}

// 404 needs proof: a tombstone, or a directory that has certainly lost nothing.
func TestSessionsThatDoNotExist(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		ended := w.open(t, 0)
		require.Equal(t, "204 ended", w.ask(t, 0, http.MethodDelete, ended, "").Summary())
		for _, id := range []string{ended, "nobody", strings.Repeat("x", 1024)} {
			for n := range 2 {
				for _, v := range sessionVerbs {
					require.Equal(t, gone, w.ask(t, n, v.method, id, v.body).Summary(), "%s %s at %d", v.method, v.body, n)
				}
			}
		}
	})
}

// nobody has the form of a session id. For other texts no directory is asked.
const nobody = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

// While the engine may have lost data nobody knows which sessions exist.
func TestAnUnknownSessionWhileTheEngineMayHaveLostIt(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		away := func(id string) {
			t.Helper()
			for _, v := range sessionVerbs {
				got := w.ask(t, 1, v.method, id, v.body, "Mcp-Protocol-Version", kit.Polling)
				if v.method == http.MethodGet {
					require.Regexp(t, `^200 sse strange\(none\.0\.[0-9a-z]+\) retry ended$`, got.Summary())
					continue
				}
				require.Regexp(t, `^503 error\(-32000,(null|"mine"|"q")\) ended$`, got.Summary())
				require.Equal(t, "1", got.Head.Get("Retry-After"))
			}
		}
		w.engine.Forget()
		away(nobody)
		away(w.session())
		elapse(3 * lease)
		require.Equal(t, gone, w.ping(t, 1, nobody), "all have restored what they had")
		require.Equal(t, served, w.ping(t, 1, w.session()))
		require.EqualValues(t, 1, w.processes[0].Stats().Received, "it is elsewhere")
		require.Equal(t, served, w.ping(t, 0, w.session()))

		w.processes[1].link.SetScript(func(c clustertest.Call) (f clustertest.Fault) {
			if c.Op == "find" {
				f.Before = clustertest.ErrUnreachable
			}
			return f
		})
		away(nobody)
		require.NotZero(t, w.processes[1].Stats().Away)
		w.processes[1].link.SetScript(nil)
		require.Equal(t, gone, w.ping(t, 1, nobody))
	})
}

// Adopted sessions may exceed MaxSessions by half: their clients cannot go elsewhere.
func TestMaxSessionsAndAdoptions(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		o := options{config: func(c *rejoin.Config) { c.MaxSessions = 4 }}
		w := newWorld(t, o)
		w.add(o)
		lost := []string{w.session(), w.open(t, 0), w.open(t, 0), w.open(t, 0)}
		own := []string{w.open(t, 1), w.open(t, 1), w.open(t, 1)}
		w.kill(0)
		for _, id := range lost[:3] {
			require.Equal(t, served, w.ping(t, 1, id))
		}
		require.EqualValues(t, 6, w.processes[1].Stats().Sessions)
		require.Equal(t, later, w.ping(t, 1, lost[3]), "half as many again, and no more")
		get := w.ask(t, 1, http.MethodGet, lost[3], "", "Mcp-Protocol-Version", kit.Polling)
		require.Regexp(t, `^200 sse strange\(none\.0\.[0-9a-z]+\) retry ended$`, get.Summary(), "clients give a stream up at an error")
		_, refused := kit.Open(t, w.processes[1].Server)
		require.Equal(t, later, refused)
		for _, id := range append(own, lost[:3]...) {
			require.Equal(t, served, w.ping(t, 1, id), "nothing is lost for that")
		}
		require.Equal(t, served, w.ping(t, 2, lost[3]), "another process has room")
		require.Equal(t, "204 ended", w.ask(t, 1, http.MethodDelete, own[0], "").Summary())
		elapse(time.Second)
		_, refused = kit.Open(t, w.processes[1].Server)
		require.Equal(t, later, refused, "there are more than MaxSessions")
	})
}
