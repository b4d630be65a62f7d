package cluster_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// What was recorded is fetched from the adopter as from the owner, from each cursor: rejointest compares ids and messages.
func TestAFinishedResultIsFetchedFromTheAdopter(t *testing.T) {
	for _, instant := range []bool{true, false} {
		kit.Bubble(t, func(t *testing.T) {
			w := newWorld(t, options{instant: instant})
			call, tool := w.run(t, 3)
			tool.Returns("done")
			silent, tool := w.run(t, 0)
			tool.Returns("also done")
			second := w.lose()
			require.Equal(t, `"done"`, string(call.Result()))
			require.Equal(t, "200 sse primer@3 4:result closed", kit.Last(call))
			require.Equal(t, `"also done"`, string(silent.Result()))
			require.Equal(t, "200 sse primer@0 1:result closed", kit.Last(silent))
			for _, id := range call.IDs() {
				call.PollFrom(id)
			}
			require.Len(t, call.Messages(), 4)
			require.Equal(t, []string{"200 sse primer@0 1:progress 2:progress 3:progress retry closed", "200 sse primer@3 4:result closed"}, kit.Summaries(call)[:2])
			require.Equal(t, rejoin.Stats{Adopted: 1, Sessions: 1}, onlyThese(second.Stats()))
		})
	}
}

// onlyThese leaves out what a test of adoptions does not look at.
func onlyThese(s rejoin.Stats) rejoin.Stats {
	return rejoin.Stats{Adopted: s.Adopted, Moved: s.Moved, Sessions: s.Sessions, Opened: s.Opened}
}

// The client had everything. It is told so, and nothing is left after Retain.
func TestAResultThatWasFetchedIsNotFetchedTwice(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{policy: rejoin.Policy{Retain: time.Minute}})
		call, tool := w.run(t, 1)
		tool.Returns("done")
		require.Equal(t, `"done"`, string(call.Result()))
		ids := call.IDs()
		w.lose()
		call.PollFrom(ids[len(ids)-1])
		require.Equal(t, http.StatusNoContent, call.Status())
		call.PollFrom(ids[0])
		require.Equal(t, "200 sse primer@0 1:progress 2:result closed", kit.Last(call), "its answer may have been lost on its way")
		elapse(2 * time.Minute)
		call.PollFrom(ids[0])
		require.Equal(t, "200 sse primer@0 1:error(-32000,2) expired closed", kit.Last(call), "it was kept for Retain")
	})
}

func TestALargeResultIsFetchedFromTheAdopter(t *testing.T) {
	for _, instant := range []bool{true, false} {
		kit.Bubble(t, func(t *testing.T) {
			w := newWorld(t, options{instant: instant})
			call, tool := w.run(t, 500)
			result := strings.Repeat("x", 3<<20)
			tool.Returns(result)
			w.lose()
			require.JSONEq(t, `"`+result+`"`, string(call.Result()))
			require.Equal(t, kit.UpTo(501)[1:], kit.Progress(t, call.Messages()))
		})
	}
}

// Clients of version 2025-03-26 do not poll. They come back only when their connection is lost, with the id of an event.
func TestABatchIsFetchedFromTheAdopter(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		first := w.processes[0]
		session := w.openAs(t, 0, kit.Batches)
		post := w.ask(t, 0, http.MethodPost, session, "["+kit.CallBody("1", "{}")+","+kit.CallBody("2", "{}")+","+kit.CallBody(`"three"`, "{}")+"]")
		a, b := first.next(), first.next()
		first.next()
		a.Returns("a")
		elapse(time.Second)
		require.Equal(t, "200 sse comment 1:result open", post.Summary())
		b.Returns("b")
		ids := kit.IDsIn(post)
		w.kill(0)
		get := w.ask(t, 1, http.MethodGet, session, "", "Last-Event-ID", ids[0])
		require.Regexp(t, `^200 sse comment 2:result 2~:error\(-32000,(1|2|"three")\) owner_lost ended$`, get.Summary(), "the second is there, the third is lost")
		answered := regexp.MustCompile(`"id":(1|2|"three")`).FindAllString(post.Body.String()+get.Body.String(), -1)
		require.Subset(t, answered, []string{`"id":1`, `"id":2`, `"id":"three"`}, "each has an answer")
		for _, id := range kit.IDsIn(get) {
			again := w.ask(t, 1, http.MethodGet, session, "", "Last-Event-ID", id)
			require.Regexp(t, `^200 sse comment 2~:error\(-32000,(1|2|"three")\) owner_lost ended$`, again.Summary(), "it may not have got that")
		}
	})
}

func TestABatchThatHasEndedIsFetchedFromTheAdopter(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		first := w.processes[0]
		session := w.openAs(t, 0, kit.Batches)
		post := w.ask(t, 0, http.MethodPost, session, "["+kit.CallBody("1", "{}")+","+kit.CallBody("2", "{}")+"]")
		a, b := first.next(), first.next()
		a.Returns("a")
		elapse(time.Second)
		b.Returns("b")
		require.Equal(t, "200 sse comment 1:result 2:result ended", post.Summary())
		ids := kit.IDsIn(post)
		w.kill(0)
		get := w.ask(t, 1, http.MethodGet, session, "", "Last-Event-ID", ids[0])
		require.Equal(t, "200 sse comment 2:result ended", get.Summary())
		require.Equal(t, ids[1:], kit.IDsIn(get))
		require.Equal(t, "204 sse ended", w.ask(t, 1, http.MethodGet, session, "", "Last-Event-ID", ids[1]).Summary())
	})
}
