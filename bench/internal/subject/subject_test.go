package subject

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// each runs test for every subject of the legacy era for which has returns true.
func each(t *testing.T, has func(Subject) bool, test func(t *testing.T, s Subject)) {
	t.Helper()
	tested := 0
	for _, s := range All() {
		if s.Modern || s.Redis && engineAddr == nil || !has(s) {
			continue
		}
		tested++
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			test(t, s)
		})
	}
	require.NotZero(t, tested)
}

func every(Subject) bool    { return true }
func serves(s Subject) bool { return s.Name != "null" }

// ownGoSDK reports whether s is go-sdk with its own transport.
func ownGoSDK(s Subject) bool { return strings.HasPrefix(s.Name, "gosdk-") }

func streams(s Subject) bool { return s.Stream }
func stores(s Subject) bool  { return s.Stores }
func closes(s Subject) bool  { return s.Closes }

func TestTheListOfSubjects(t *testing.T) {
	names := map[string]bool{}
	for _, s := range All() {
		require.False(t, names[s.Name], "%s is there twice", s.Name)
		names[s.Name] = true
		base, ok := Find(s.Base)
		require.True(t, ok, "%s: no base %q", s.Name, s.Base)
		require.Equal(t, base.Name, base.Base, "%s: a base is its own", s.Name)
		require.NotEmpty(t, s.Notes, s.Name)
		found, ok := Find(s.Name)
		require.True(t, ok)
		require.Equal(t, s.Name, found.Name)
	}
	_, ok := Find("nobody")
	require.False(t, ok)
}

func TestInitialize(t *testing.T) {
	t.Parallel()
	each(t, every, func(t *testing.T, s Subject) {
		c := serve(t, s, 0)
		result := c.open()
		require.Equal(t, "2025-11-25", result["protocolVersion"])
		require.Equal(t, s.Session, c.session != "", "a session: %q", c.session)
	})
}

func TestEcho(t *testing.T) {
	t.Parallel()
	each(t, every, func(t *testing.T, s Subject) {
		c := serve(t, s, 0)
		c.open()
		for i := range 70 { // more streams than any server keeps
			text := "text " + strconv.Itoa(i)
			a := c.call(Echo, `{"text":"`+text+`"}`)
			messages := a.all()
			require.NotEmpty(t, messages)
			require.Equal(t, text, messages[len(messages)-1].text(t, a.number))
			require.Equal(t, s.Stream, a.stream, "SSE")
			require.Equal(t, s.Stream && s.Primes, a.primed == 1, "%d primers", a.primed)
			if speaks := strings.Contains(s.Name, "mcpgo-sse"); !speaks {
				require.Len(t, messages, 1)
			}
			for i, m := range messages {
				require.Equal(t, s.Stream && s.Stores, m.event != "", "event %d has an id", i)
			}
		}
	})
}

func TestToolsList(t *testing.T) {
	t.Parallel()
	each(t, serves, func(t *testing.T, s Subject) {
		c := serve(t, s, 0)
		c.open()
		messages := c.post(c.request("tools/list", "{}")).all()
		require.Len(t, messages, 1)
		var list toolList
		require.NoError(t, json.Unmarshal(messages[0].Result, &list))
		names := map[string]bool{}
		for _, tool := range list.Tools {
			names[tool.Name] = true
		}
		require.Equal(t, map[string]bool{Echo: true, Burst: true, Hold: true}, names)
	})
}

// steps returns the numbers of the notifications before the answer, and checks the answer.
func steps(t *testing.T, messages []*message, number, total int) (steps []int) {
	t.Helper()
	require.NotEmpty(t, messages)
	for _, m := range messages[:len(messages)-1] {
		require.Equal(t, "notifications/progress", m.Method)
		var p struct {
			Token    string  `json:"progressToken"`
			Progress float64 `json:"progress"`
			Total    float64 `json:"total"`
			Message  string  `json:"message"`
		}
		require.NoError(t, json.Unmarshal(m.Params, &p))
		require.Equal(t, "t"+strconv.Itoa(number), p.Token)
		require.InDelta(t, total, p.Total, 0)
		require.Equal(t, stepMessage, p.Message)
		steps = append(steps, int(p.Progress))
	}
	require.Equal(t, burstAnswer, messages[len(messages)-1].text(t, number))
	return steps
}

// upTo is 1 … n.
func upTo(n int) []int {
	numbers := make([]int, n)
	for i := range numbers {
		numbers[i] = i + 1
	}
	return numbers
}

func TestBurst(t *testing.T) {
	t.Parallel()
	each(t, streams, func(t *testing.T, s Subject) {
		c := serve(t, s, 0)
		c.open()
		for range 2 {
			const n = 300 // more than any server's queue holds
			a := c.call(Burst, `{"n":300}`)
			got := steps(t, a.all(), a.number, n)
			if s.Name == "mcpgo-sse" { // it may lose the one that its forwarder holds
				require.IsIncreasing(t, got)
				require.GreaterOrEqual(t, len(got), n-1)
				continue
			}
			require.Equal(t, upTo(n), got, "in order, and none lost")
		}
	})
}

func TestBurstIsAnsweredWithoutAStream(t *testing.T) {
	t.Parallel()
	// go-sdk refuses to send without a stream, and the tool says so.
	each(t, func(s Subject) bool { return serves(s) && !s.Stream && !ownGoSDK(s) }, func(t *testing.T, s Subject) {
		c := serve(t, s, 0)
		c.open()
		a := c.call(Burst, `{"n":5}`)
		messages := a.all()
		got := steps(t, messages, a.number, 5)
		switch {
		case s.Stores:
			require.Equal(t, upTo(5), got)
		case len(got) > 0:
			require.True(t, a.stream)
		}
	})
}

func TestAWholeStreamCanBeReadAgain(t *testing.T) {
	t.Parallel()
	each(t, stores, func(t *testing.T, s Subject) {
		c := serve(t, s, 0)
		c.open()
		const n = 200
		a := c.call(Burst, `{"n":200}`)
		first := a.all()
		require.Equal(t, upTo(n), steps(t, first, a.number, n))
		require.Equal(t, s.Primes, a.primed == 1)
		if !s.Primes { // the first id is that of the first message
			first = first[1:]
		}
		again := c.resume(a.ids[0]).all()
		require.Len(t, again, len(first))
		for i := range again {
			require.Equal(t, *first[i], *again[i])
		}
		tail := c.resume(first[n/2].event).all()
		require.Len(t, tail, len(first)-n/2-1, "what follows the middle")
	})
}

func TestHoldWaitsForTheGate(t *testing.T) {
	t.Parallel()
	each(t, serves, func(t *testing.T, s Subject) {
		c := serve(t, s, 0)
		c.open()
		body := c.request("tools/call", `{"name":"hold","arguments":{}}`)
		number := c.last
		answers := make(chan *message, 1)
		go func() {
			messages := c.post(body).all()
			answers <- messages[len(messages)-1]
		}()
		for range 20 { // enough time for a tool that does not wait to answer
			other := &client{t: t, url: c.url, session: c.session, last: 1000}
			other.call(Echo, `{"text":"meanwhile"}`).all()
		}
		require.Empty(t, answers, "the gate is shut")
		c.gate.Open()
		require.Equal(t, holdAnswer, (<-answers).text(t, number))
	})
}

func TestHoldCloseAndResume(t *testing.T) {
	t.Parallel()
	each(t, closes, func(t *testing.T, s Subject) {
		c := serve(t, s, 0)
		c.open()
		held := c.call(Hold, `{"close":true}`)
		require.Empty(t, held.all(), "the response ends without an answer")
		require.Equal(t, 1, held.primed)
		require.GreaterOrEqual(t, held.retry, time.Second)
		require.LessOrEqual(t, held.retry, time.Second+time.Second/5)

		if ownGoSDK(s) { // it sends no head before the first event
			c.gate.Open()
			messages := c.resume(held.ids[0]).all()
			require.Len(t, messages, 1)
			require.Equal(t, holdAnswer, messages[0].text(t, held.number))
			return
		}
		a := c.resume(held.ids[0])
		m, err := a.next()
		require.NoError(t, err)
		require.Nil(t, m, "a primer, since the gate is shut")
		require.NotEqual(t, held.ids[0], a.ids[0], "no id is used twice")
		c.gate.Open()
		messages := a.all()
		for len(messages) == 0 { // the server may end the response again
			require.NotZero(t, a.retry)
			a = c.resume(a.ids[len(a.ids)-1])
			messages = a.all()
		}
		require.Len(t, messages, 1)
		require.Equal(t, holdAnswer, messages[0].text(t, held.number))
	})
}

func TestBurstCloseAndResume(t *testing.T) {
	t.Parallel()
	each(t, closes, func(t *testing.T, s Subject) {
		c := serve(t, s, 0)
		c.open()
		const n = 200
		a := c.call(Burst, `{"n":200,"close":true}`)
		require.Empty(t, a.all(), "what comes after the close waits")
		require.Equal(t, upTo(n), steps(t, c.resume(a.ids[0]).all(), a.number, n))
	})
}

// The store has the size that was asked for: what fits into a large store does not fit into a small one.
func TestAStoreOfTheSizeThatWasAskedFor(t *testing.T) {
	t.Parallel()
	each(t, func(s Subject) bool { return s.Name == "rejoin-sse" || s.Name == bareStore }, func(t *testing.T, s Subject) {
		const n = 1000
		burst := func(storeBytes int64) ([]*message, int) {
			c := serve(t, s, storeBytes)
			c.open()
			a := c.call(Burst, `{"n":1000,"close":true}`)
			a.all()
			return c.resume(a.ids[0]).all(), a.number
		}
		messages, number := burst(1 << 20)
		require.Equal(t, upTo(n), steps(t, messages, number, n))
		if s.Name == bareStore { // without a limit
			return
		}
		messages, _ = burst(32 << 10)
		require.Less(t, len(messages), n)
		require.NotEmpty(t, messages[len(messages)-1].Error, "what has no room fails its call")
	})
}

func TestDelete(t *testing.T) {
	t.Parallel()
	each(t, func(s Subject) bool { return s.Session }, func(t *testing.T, s Subject) {
		c := serve(t, s, 0)
		c.open()
		if s.Closes && !ownGoSDK(s) { // DELETE does not wait for a running tool; go-sdk would
			c.call(Hold, `{"close":true}`).all()
		}
		require.Equal(t, 2, c.do(http.MethodDelete, "", "").status/100)
		require.Equal(t, http.StatusNotFound, c.post(c.request("tools/call", `{"name":"echo","arguments":{"text":""}}`)).status)

		c.session = "nobody"
		require.Equal(t, http.StatusNotFound, c.post(c.request("tools/list", "{}")).status)
	})
}

func TestTheStandaloneStreamIsServed(t *testing.T) {
	t.Parallel()
	each(t, func(s Subject) bool { return s.Session }, func(t *testing.T, s Subject) {
		c := serve(t, s, 0)
		c.open()
		a := c.do(http.MethodGet, "", "")
		require.Equal(t, http.StatusOK, a.status)
		require.True(t, a.stream)
	})
}

// The owner gets one connection from the client, perhaps one from itself, and one for all calls that are forwarded.
func TestForwardedCallsShareAConnection(t *testing.T) {
	t.Parallel()
	each(t, func(s Subject) bool { return s.Forward }, func(t *testing.T, s Subject) {
		c := serve(t, s, 0)
		c.open()
		for i := range 50 {
			a := c.call(Echo, `{"text":"hello"}`)
			messages := a.all()
			require.Len(t, messages, 1, i)
			require.Equal(t, "hello", messages[0].text(t, a.number))
		}
		require.GreaterOrEqual(t, c.owner.Accepted(), int64(2))
		require.LessOrEqual(t, c.owner.Accepted(), int64(3))
	})
}
