package cluster_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// send sends notifications on the standalone stream of the session that an app opened last.
func (a *watched) send(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		require.NoError(t, a.last().s.Notify(context.Background(), "notifications/"+name, nil))
	}
	elapse(time.Second)
}

// listens is a world whose client has read a and b of the standalone stream, and not c and d.
func listens(t *testing.T, o options) (w *world, of func(int) *watched, listen *rejointest.Call) {
	t.Helper()
	of = watch(&o)
	w = newWorld(t, o)
	listen = w.Listen()
	of(0).send(t, "a", "b")
	listen.Cut()
	of(0).send(t, "c", "d")
	return w, of, listen
}

// The rest of the old stream and the new one are one response. Its ids are of two names, and none comes twice.
func TestTheStandaloneStreamGoesOnAtTheAdopter(t *testing.T) {
	for _, instant := range []bool{true, false} {
		kit.Bubble(t, func(t *testing.T) {
			w, of, listen := listens(t, options{instant: instant})
			w.lose()
			listen.Poll()
			of(1).send(t, "e", "f")
			require.Equal(t, "200 sse primer@2 3:c 4:d 1:e 2:f open", kit.Last(listen))
			ids := listen.IDs()
			listen.Cut()
			of(1).send(t, "g")
			listen.Poll()
			require.Equal(t, "200 sse primer@2 3:g open", kit.Last(listen), "with a cursor of the new name")
			old, _, _ := kit.Position(ids[0])
			now, _, _ := kit.Position(ids[len(ids)-1])
			require.NotEqual(t, old, now, "nothing is appended to the log of the old owner")
			listen.PollFrom(ids[1])
			require.Equal(t, "200 sse primer@1 2:b 3:c 4:d 1:e 2:f 3:g open", kit.Last(listen), "from everywhere")
		})
	}
}

func TestTheStandaloneStreamOfThreeProcesses(t *testing.T) {
	for _, instant := range []bool{true, false} {
		kit.Bubble(t, func(t *testing.T) {
			o := options{instant: instant}
			of := watch(&o)
			w := newWorld(t, o)
			w.add(o)
			listen := w.Listen()
			of(0).send(t, "a", "b")
			ids := listen.IDs()
			listen.Cut()
			of(0).send(t, "c")
			w.lose()
			require.Equal(t, served, w.ping(t, 1, w.session()))
			of(1).send(t, "d", "e")
			w.kill(1)
			w.use(2)
			listen.Poll()
			of(2).send(t, "f")
			require.Equal(t, "200 sse primer@2 3:c 1:d 2:e 1:f open", kit.Last(listen))
			later := listen.IDs()
			for _, id := range []string{ids[0], ids[1], ids[2], later[len(later)-2]} {
				listen.PollFrom(id)
				require.True(t, strings.HasSuffix(kit.Last(listen), "1:f open"), kit.Last(listen))
			}
			require.Equal(t, "200 sse primer@2 1:f open", kit.Last(listen), "a cursor of the second name")
		})
	}
}

// Nothing came after the cursor: the primer repeats the client's position, until there is something new.
func TestAStandaloneStreamWithNothingLeft(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		o := options{}
		of := watch(&o)
		w := newWorld(t, o)
		listen := w.Listen()
		of(0).send(t, "a", "b")
		w.lose()
		for range 2 {
			listen.Poll()
			require.Equal(t, "200 sse primer@2 open", kit.Last(listen))
			listen.Cut()
		}
		of(1).send(t, "c")
		listen.Poll()
		require.Equal(t, "200 sse primer@2 1:c open", kit.Last(listen))
	})
}

// Without a cursor the client gets what is new, as it does where the session has not moved.
func TestTheStandaloneStreamWithoutACursor(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, of, _ := listens(t, options{})
		w.lose()
		require.Equal(t, served, w.ping(t, 1, w.session()))
		of(1).send(t, "e")
		again := w.Listen()
		of(1).send(t, "f")
		require.Equal(t, "200 sse primer@0 1:e 2:f open", kit.Last(again))
	})
}

// The engine may have lost the end of the old log. The client is not refused, and misses nothing of the new stream.
func TestACursorPastTheEndOfTheStandaloneStream(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, of, listen := listens(t, options{})
		name, _, _ := kit.Position(listen.IDs()[0])
		w.lose()
		require.Equal(t, served, w.ping(t, 1, w.session()))
		of(1).send(t, "e")
		for _, beyond := range []string{".5", ".500", ".6.abc"} {
			get := w.ask(t, 1, http.MethodGet, w.session(), "", "Last-Event-ID", name+beyond)
			seq, _, _ := strings.Cut(beyond[1:], ".")
			require.Equal(t, "200 sse primer@"+seq+" 1:e open", get.Summary())
			name, _, _ := kit.Position(kit.IDsIn(get)[1])
			get = w.ask(t, 1, http.MethodGet, w.session(), "", "Last-Event-ID", name+beyond)
			require.Equal(t, "200 sse primer@1 open", get.Summary(), "of the new stream: what was written is not written again")
		}
	})
}

func TestTheStandaloneStreamOfAClientThatDoesNotPoll(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, of, listen := listens(t, options{version: kit.Legacy})
		w.lose()
		listen.Poll()
		of(1).send(t, "e")
		require.Equal(t, "200 sse comment 3:c 4:d 1:e open", kit.Last(listen))
	})
}

// Server.CloseStreams and Handle.CloseStandaloneStream work in a stream that reads an older log before.
func TestTheStandaloneStreamIsClosedAndReadOn(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, of, listen := listens(t, options{policy: rejoin.Policy{CloseAfter: time.Second}})
		w.lose()
		listen.Poll()
		elapse(5 * time.Second)
		require.Equal(t, "200 sse primer@2 3:c 4:d retry closed", kit.Last(listen))
		of(1).send(t, "e")
		listen.Poll()
		elapse(5 * time.Second)
		require.Equal(t, "200 sse primer@4 1:e retry closed", kit.Last(listen))
		listen.Poll()
		elapse(5 * time.Second)
		require.Equal(t, "200 sse primer@1 retry closed", kit.Last(listen))
	})
}

// A client that comes with the old name gets no id of the new one before all that is left of the old stream: with such an id it would not come back
// for the rest.
func TestTheNewNameComesAfterTheOldStream(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, of, listen := listens(t, options{})
		w.lose()
		began := time.Now()
		w.processes[1].link.SetScript(func(c clustertest.Call) (f clustertest.Fault) {
			if c.Op == "append" && time.Since(began) < 2*time.Second || c.Op == "read" && time.Since(began) < 5*time.Second {
				f.Before = clustertest.ErrUnreachable
			}
			return f
		})
		listen.Poll()
		elapse(4 * time.Second)
		require.Equal(t, "200 sse primer@2 open", kit.Last(listen), "a stream of the old name need not be begun")
		of(1).send(t, "e")
		elapse(4 * time.Second)
		require.Equal(t, "200 sse primer@2 3:c 4:d 1:e open", kit.Last(listen))
	})
}
