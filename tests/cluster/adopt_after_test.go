package cluster_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// An adopted session is a session as any other.
func TestAnAdoptedSessionGoesOn(t *testing.T) {
	for _, instant := range []bool{true, false} {
		kit.Bubble(t, func(t *testing.T) {
			o := options{instant: instant, policy: rejoin.Policy{CloseAfter: 2 * time.Second}}
			of := watch(&o)
			w := newWorld(t, o)
			second := w.lose()

			quick := w.CallTool("quick", nil)
			second.next().Returns("quick")
			require.Equal(t, "200 result answered", kit.Last(quick))

			call := w.CallTool("slow", nil)
			tool := second.next()
			require.NoError(t, tool.Progress(1, 0, ""))
			elapse(5 * time.Second)
			require.Equal(t, "200 sse primer@0 1:progress retry closed", kit.Last(call), "CloseAfter")
			require.True(t, tool.Resumable())
			require.NoError(t, tool.Progress(2, 0, ""))
			tool.Returns("slow")
			require.Equal(t, `"slow"`, string(call.Result()))
			require.Len(t, call.Messages(), 3)

			cancelled := w.CallTool("x", nil)
			tool = second.next()
			cancelled.Cancel("enough")
			require.ErrorIs(t, tool.Cause(), rejoin.ErrCancelled)

			require.NoError(t, of(1).last().s.Notify(context.Background(), "notifications/x", nil))
			require.Equal(t, "200 sse primer@0 1:x open", kit.Last(w.Listen()))
			require.Equal(t, of(1).last().s.Ref(), of(0).last().s.Ref())
			w.Delete()
			require.Equal(t, gone, w.ping(t, 1, w.session()))
			require.Len(t, of(1).causes(), 1)
		})
	}
}

// Questions that were open are lost with the owner. New ones are asked and answered.
func TestQuestionsAfterAnAdoption(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		o := options{onRequest: func(method string, _ json.RawMessage) (any, error) { return map[string]string{"asked": method}, nil }}
		w := newWorld(t, o)
		first := w.processes[0]
		asking := w.CallTool("x", nil)
		tool := first.next()
		elapse(time.Second)
		asking.Freeze() // the question does not reach the client in time
		outcome := tool.Asks(tool.Ctx, "elicitation/create")
		second := w.lose()
		asking.Poll()
		require.Contains(t, kit.Last(asking), "owner_lost closed")
		require.Empty(t, outcome)

		call := w.CallTool("x", nil)
		mine := second.next()
		require.True(t, mine.Session().CanAsk("elicitation/create"))
		answer := mine.Asks(mine.Ctx, "elicitation/create")
		elapse(time.Second)
		require.JSONEq(t, `{"asked":"elicitation/create"}`, (<-answer).(string))
		mine.Returns("done")
		require.Equal(t, `"done"`, string(call.Result()))
		w.back()
	})
}

// The session moves on, and back to where it was. What each process recorded is served by the next ones.
func TestASessionMovesOnAndBack(t *testing.T) {
	for _, instant := range []bool{true, false} {
		kit.Bubble(t, func(t *testing.T) {
			o := options{instant: instant}
			of := watch(&o)
			w := newWorld(t, o)
			first := w.processes[0]
			one, tool := w.run(t, 2)
			tool.Returns("one")
			second := w.lose()
			require.Equal(t, served, w.ping(t, 1, w.session()))
			w.back()
			require.Zero(t, first.Stats().Sessions, "it knows")
			two, tool := w.run(t, 2)
			tool.Returns("two")
			lost, _ := w.run(t, 1)
			ids := append(append(one.IDs(), two.IDs()...), lost.IDs()...)
			w.kill(1)
			w.use(0)
			require.Equal(t, `"one"`, string(one.Result()))
			require.Equal(t, `"two"`, string(two.Result()))
			require.Equal(t, rejoin.ReasonOwnerLost, lost.Err().Reason())
			three := w.CallTool("x", nil)
			tool = first.next()
			require.NoError(t, tool.Progress(1, 0, ""))
			tool.Returns("three")
			require.Equal(t, `"three"`, string(three.Result()))
			require.Equal(t, 2, of(0).times())
			require.EqualValues(t, 1, first.Stats().Adopted)
			require.EqualValues(t, 1, second.Stats().Adopted)
			seen := map[string]bool{}
			for _, id := range append(ids, three.IDs()...) {
				require.False(t, seen[id], "an id came for two events")
				seen[id] = true
			}
			refs := map[rejoin.StreamRef]bool{}
			for _, s := range kit.Sessions(first.Server)[0].Streams {
				require.False(t, refs[s.Ref], "two streams have one name: %s", s.Ref)
				refs[s.Ref] = true
			}
		})
	}
}

// Streams that the adopter starts have other names in logs and admin routes than those that it has adopted.
func TestNamesOfStreamsAfterAnAdoption(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		_, tool := w.run(t, 1)
		tool.Returns("done")
		second := w.lose()
		_, _ = w.run(t, 1)
		streams := kit.Sessions(second.Server)[0].Streams
		require.Len(t, streams, 3)
		require.NotEqual(t, streams[1].Ref, streams[2].Ref)
		require.NotEqual(t, streams[0].Ref, streams[1].Ref)
		require.NoError(t, second.CloseStream(streams[2].Ref, 0))
		_, err := second.CloseStreams(kit.Sessions(second.Server)[0].Ref, 0)
		require.NoError(t, err)
	})
}

// An adopted session that nobody uses ends as any other, and the record with it.
func TestAnAdoptedSessionIsIdleForTooLong(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		o := options{config: func(c *rejoin.Config) { c.SessionIdleTTL = 10 * time.Minute }}
		of := watch(&o)
		w := newWorld(t, o)
		w.lose()
		require.Equal(t, served, w.ping(t, 1, w.session()))
		elapse(9 * time.Minute)
		require.Equal(t, served, w.ping(t, 1, w.session()))
		elapse(9 * time.Minute)
		require.Empty(t, of(1).causes())
		elapse(2 * time.Minute)
		require.Len(t, of(1).causes(), 1)
		require.ErrorIs(t, of(1).causes()[0], rejoin.ErrSessionEnded)
		require.Equal(t, gone, w.ping(t, 1, w.session()))
		require.Equal(t, http.StatusNotFound, kit.Notify(t, w.processes[1].Server, w.session(), "notifications/x"))
	})
}

// A session lives in the directory as long as it is used, also if its owner writes nothing, and a lost one for a while.
func TestARecordLivesAsLongAsItsSession(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{config: func(c *rejoin.Config) { c.SessionIdleTTL = time.Hour }})
		listen := w.Listen()
		elapse(24 * time.Hour)
		require.Equal(t, 1, listen.Open())
		w.lose()
		require.Equal(t, served, w.ping(t, 1, w.session()), "a day later")
	})
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{config: func(c *rejoin.Config) { c.SessionIdleTTL = time.Hour }})
		w.lose()
		elapse(time.Hour)
		require.Equal(t, later, w.ping(t, 1, w.session()), "after such a time the owner is forgotten, and has a lease to show that it lives")
		elapse(2 * lease)
		require.Equal(t, served, w.ping(t, 1, w.session()), "nobody asked for it for an hour")
	})
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{config: func(c *rejoin.Config) { c.SessionIdleTTL = time.Hour }})
		w.lose()
		elapse(3 * time.Hour)
		require.Equal(t, gone, w.ping(t, 1, w.session()))
	})
}
