package model_test

import (
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
	"github.com/rejoin-mcp/rejoin/internal/sse"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// lean is a test without Helper, which walks the stack for each expectation and costs a fuzz target a quarter of its runs.
type lean struct{ t *testing.T }

func (l lean) Errorf(format string, args ...any) { l.t.Errorf(format, args...) }
func (l lean) FailNow()                          { l.t.FailNow() }

// streamRead is what one connection of a stream has read.
type streamRead struct {
	stream   string // the name of the stream; "": no event id came
	from     uint64 // the position of the primer
	ids      []string
	messages []streamMessage
	retry    time.Duration // the last retry
	beyond   bool          // its cursor is past the end
	sentAway bool          // it ends with a retry
}

type streamMessage struct {
	seq        uint64
	data       string
	responseTo string // the id of the request that it answers; "": it is not a response
}

// readStream parses a whole text/event-stream, and fails the test if the server may not write it: one primer, at the beginning, if the client polls,
// otherwise none; events of one stream without a gap; only JSON-RPC messages; a retry alone only at the end.
// The response to a request that was cancelled before anything was sent is an empty stream.
func readStream(t require.TestingT, body string, polls bool) streamRead {
	var got streamRead
	r := sse.NewReader(strings.NewReader(body), 1<<20)
	for first := true; ; first = false {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return got
		}
		require.NoError(t, err, body)
		if len(e.Data) > 0 {
			require.Equal(t, "message", e.Name, "deployed clients drop what has no name")
		} else {
			require.Empty(t, e.Name)
		}
		require.False(t, got.sentAway, "nothing comes after a bare retry: %s", body)
		if e.Retry >= 0 {
			require.True(t, polls, "a client that cannot poll gets no retry")
			require.GreaterOrEqual(t, e.Retry, time.Millisecond)
			got.retry = e.Retry
		}
		require.False(t, polls && first && !e.HasID, "the primer comes first")
		if !e.HasID {
			require.False(t, e.HasData, body)
			got.sentAway = true
			continue
		}
		got.event(t, e, first && polls)
	}
}

// event handles an event with an id.
func (got *streamRead) event(t require.TestingT, e sse.Event, primer bool) {
	parts := kit.EventID.FindStringSubmatch(e.ID)
	require.NotNil(t, parts, e.ID)
	require.NotContains(t, got.ids, e.ID)
	got.ids = append(got.ids, e.ID)
	name, seq := e.ID[:22], decimal(t, parts[1])
	if got.stream == "" {
		got.stream = name
	}
	require.Equal(t, got.stream, name, "one connection reads one stream")
	if primer {
		require.NotEmpty(t, parts[2], "a primer comes first")
		require.Empty(t, e.Data)
		require.Positive(t, e.Retry)
		got.from = seq
		return
	}
	require.NotEmpty(t, e.Data, "one primer only")
	if parts[2] != "" { // past the end of a stream come errors, which have no sequence
		if len(got.ids) == 1 { // the client gets no primers
			got.from = seq
		}
		require.Equal(t, got.from, seq)
		require.Contains(t, string(e.Data), `"data":{"reason":"expired"}`)
		require.Empty(t, got.messages)
		got.beyond = true
		return
	}
	require.False(t, got.beyond)
	require.Negative(t, e.Retry)
	m, err := jsonrpc.Parse(e.Data, 300)
	require.NoError(t, err, string(e.Data))
	one := streamMessage{seq: seq, data: string(e.Data)}
	if m.Kind == jsonrpc.Result || m.Kind == jsonrpc.Failure {
		one.responseTo = string(m.ID)
	}
	switch n := len(got.messages); {
	case n > 0:
		require.Equal(t, got.messages[n-1].seq+1, seq, "no gap")
	case len(got.ids) > 1:
		require.Equal(t, got.from+1, seq, "the first after the primer")
	}
	got.messages = append(got.messages, one)
}

func decimal(t require.TestingT, s string) uint64 {
	n, err := strconv.ParseUint(s, 10, 64)
	require.NoError(t, err)
	return n
}

// eventIDsIn returns the event ids in a stream.
func eventIDsIn(body string) (all []string) {
	for line := range strings.SplitSeq(body, "\n") {
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			all = append(all, id)
		}
	}
	return all
}
