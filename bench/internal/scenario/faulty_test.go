package scenario

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/bench/internal/load"
)

// script is a server on a real socket that answers a call with the given parts, right or wrong. A part is the number of a progress
// notification, "answer", or "close", which ends the response before the answer. Event ids are positions.
type script struct {
	parts  []string
	resume func(after int) []string // what a GET is answered with; nil: the parts that follow
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	at, _ := strconv.Atoi(r.Header.Get("Last-Event-ID"))
	var parts []string
	if r.Method == http.MethodGet && s.resume != nil {
		parts = s.resume(at)
	} else {
		parts = s.parts[at:]
	}
	_, _ = fmt.Fprintf(w, "id: %d\ndata: \n\n", at)
	for _, part := range parts {
		at++
		switch part {
		case "close":
			_, _ = fmt.Fprintf(w, "id: %d\nretry: 1\ndata: \n\n", at)
			return
		case "answer":
			_, _ = fmt.Fprintf(w, "id: %d\ndata: %s\n\n", at, answer("", 1, "done").Data)
		default:
			n, _ := strconv.Atoi(part)
			_, _ = fmt.Fprintf(w, "id: %d\ndata: %s\n\n", at, step("", n).Data)
		}
	}
}

func scripted(t *testing.T, s *script) target {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return target{Addr: strings.TrimPrefix(server.URL, "http://")}
}

// A call is recorded, also if its response ends several times before the answer, and a missing notification is found.
func TestRecord(t *testing.T) {
	s, err := scripted(t, &script{parts: strings.Fields("close 1 2 close 3 close answer")}).record(t.Context(), "s", 1, 3, true)
	require.NoError(t, err)
	require.Equal(t, stored{session: "s", id: 1, first: "0", events: 3}, s)

	_, err = scripted(t, &script{parts: strings.Fields("close 1 3 answer")}).record(t.Context(), "s", 1, 3, true)
	require.EqualError(t, err, "2 of 3 events came")

	_, err = scripted(t, &script{resume: func(int) []string { return []string{"close"} }}).record(t.Context(), "s", 1, 3, true)
	require.ErrorContains(t, err, "no answer in 100 connections")
}

// The tail is ten events before the answer.
func TestRecordTail(t *testing.T) {
	var parts []string
	for i := range 12 {
		parts = append(parts, strconv.Itoa(i+1))
	}
	at := scripted(t, &script{parts: append(parts, "answer")})
	s, err := at.record(t.Context(), "s", 1, 12, false)
	require.NoError(t, err)
	require.Equal(t, "3", s.tail)
	_, _, err = at.replay(t.Context(), s, s.tail, 3)
	require.NoError(t, err)
}

// A replay must bring all that follows, once and in order.
func TestReplayIsChecked(t *testing.T) {
	for resumed, fault := range map[string]string{
		"1 2 3 answer":   "",
		"1 3 answer":     "2 of 3 events, answer true",
		"1 2 3":          "3 of 3 events, answer false",
		"1 2 2 3 answer": "after progress 2",
		"1 2 3 answer 3": "after the answer",
	} {
		at := scripted(t, &script{parts: strings.Fields("1 2 3 answer"), resume: func(int) []string { return strings.Fields(resumed) }})
		s, err := at.record(t.Context(), "s", 1, 3, false)
		require.NoError(t, err)
		first, all, err := at.replay(t.Context(), s, s.first, s.skipped)
		if fault != "" {
			require.ErrorContains(t, err, fault, resumed)
			continue
		}
		require.NoError(t, err, resumed)
		require.Positive(t, first)
		require.LessOrEqual(t, first, all)
	}
}

// A burst counts what arrives, and fails without an answer.
func TestBurstCounts(t *testing.T) {
	j := burstJob{target: scripted(t, &script{parts: strings.Fields("1 3 answer")})}
	_, got, err := j.burst(t.Context(), []string{"s"}, 3)
	require.NoError(t, err)
	require.Equal(t, 2, got)

	j = burstJob{target: scripted(t, &script{parts: strings.Fields("1 2 3")})}
	_, _, err = j.burst(t.Context(), []string{"s"}, 3)
	require.ErrorContains(t, err, "no answer after 3 events")
}

// A call that is answered at once is not parked.
func TestParkNeedsAClose(t *testing.T) {
	for parts, fault := range map[string]string{"close": "", "answer": "not let go"} {
		at := scripted(t, &script{parts: []string{parts}})
		c, hangUp, err := at.dial(t.Context())
		require.NoError(t, err)
		defer hangUp()
		cursor, err := park(c, load.Post("s", nil), 1, "done")
		if fault != "" {
			require.ErrorContains(t, err, fault)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, "1", cursor)
	}
}
