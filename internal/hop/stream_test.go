package hop

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/internal/respond"
)

// cut is a body that comes in parts of random size, and ends with an error.
type cut struct {
	rest   []byte
	random *rand.Rand
	err    error
}

func (c *cut) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		return 0, c.err
	}
	n := copy(p, c.rest[:1+c.random.IntN(min(len(c.rest), 1+c.random.IntN(40_000)))])
	c.rest = c.rest[n:]
	return n, nil
}

func (c *cut) Close() error { return nil }

func answerOf(t *testing.T, body io.ReadCloser) *Answer {
	t.Helper()
	f := New(Config{Self: "http://self"})
	a := &Answer{ctx: t.Context(), cancel: func(error) {}, res: &http.Response{Body: body, Header: http.Header{}}}
	a.p = &peer{f: f}
	return a
}

// However a stream arrives and wherever it breaks off, its client gets whole events, in order; of the one that was cut off nothing, unless that is large:
// then the end is not clean.
func TestAStreamIsPassedOnInWholeEvents(t *testing.T) {
	errCut := errors.New("cut")
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 1))
		var all bytes.Buffer
		var ends []int // of events
		for i := range random.IntN(12) {
			size := []int{0, 10, 300, 480, 512, 4000, 40_000, 100_000}[random.IntN(8)]
			fmt.Fprintf(&all, "event: message\nid: x.%d\ndata: %s\n\n", i, strings.Repeat("y", random.IntN(size+1)))
			ends = append(ends, all.Len())
		}
		body := &cut{rest: all.Bytes(), random: random, err: io.EOF}
		if seed%2 == 1 {
			body.rest, body.err = body.rest[:random.IntN(len(body.rest)+1)], errCut
		}
		came := len(body.rest)
		a := answerOf(t, body)
		rec := httptest.NewRecorder()
		out := respond.New(rec, 0)
		s := Stream{Out: &out, CanPoll: true}
		end, err := a.Pass(&s)
		got := rec.Body.String()
		require.True(t, strings.HasPrefix(all.String(), got), "seed %d", seed)
		whole := 0
		for _, at := range ends {
			if at <= came {
				whole = at
			}
		}
		switch {
		case body.err == io.EOF:
			require.Equal(t, Complete, end, "seed %d", seed)
			require.Len(t, got, all.Len(), "seed %d", seed)
		case end == Broken:
			require.ErrorIs(t, err, errCut)
			require.Greater(t, came-whole, pieceSize/2, "seed %d", seed)
		default:
			require.Equal(t, Interrupted, end, "seed %d", seed)
			require.ErrorIs(t, err, errCut)
			require.Len(t, got, whole, "seed %d", seed)
		}
		require.Equal(t, strings.Contains(got, "id: "), s.Primed, "seed %d", seed)
	}
}

// A stream that ends inside an event has not ended, even if its connection has ended properly.
func TestAnEndInsideAnEventIsNone(t *testing.T) {
	a := answerOf(t, io.NopCloser(strings.NewReader("id: 1\ndata: x\n\nid: 2\ndata: half")))
	rec := httptest.NewRecorder()
	out := respond.New(rec, 0)
	end, _ := a.Pass(&Stream{Out: &out})
	require.Equal(t, Interrupted, end)
	require.Equal(t, "id: 1\ndata: x\n\n", rec.Body.String())
}

// Seen gets all that a client without an event id has got, so that the responses among it are known.
func TestSeenGetsWhatAnUnprimedClientGets(t *testing.T) {
	a := answerOf(t, io.NopCloser(strings.NewReader("data: 1\n\ndata: 2\n\n")))
	out := respond.New(httptest.NewRecorder(), 0)
	var seen string
	end, _ := a.Pass(&Stream{Out: &out, Seen: func(events []byte) { seen += string(events) }})
	require.Equal(t, Complete, end)
	require.Equal(t, "data: 1\n\ndata: 2\n\n", seen)
}

// A client that cannot poll cannot come back, so an event id changes nothing for it.
func TestSeenGetsWhatAClientThatCannotPollGets(t *testing.T) {
	for _, polls := range []bool{false, true} {
		a := answerOf(t, io.NopCloser(strings.NewReader("id: 1\ndata: 1\n\nid: 2\ndata: 2\n\n")))
		out := respond.New(httptest.NewRecorder(), 0)
		var seen string
		end, _ := a.Pass(&Stream{Out: &out, CanPoll: polls, Seen: func(events []byte) { seen += string(events) }})
		require.Equal(t, Complete, end)
		require.Equal(t, !polls, strings.Contains(seen, "data: 2"))
	}
}

// holding claims to flush, and keeps everything.
type holding struct{ *httptest.ResponseRecorder }

func (holding) Size() int { return 0 }

// A stream whose first event comes late begins with a comment. Then it is seen at the first id that the writer holds back.
func TestAWriterHoldsBackWhatBeginsWithAComment(t *testing.T) {
	stream, w := io.Pipe() // it stays open
	defer w.Close()
	go func() {
		for _, event := range []string{": \n\n", "id: 1\nretry: 1\ndata: \n\n"} {
			_, _ = io.WriteString(w, event)
		}
	}()
	a, ended := answerOf(t, stream), make(chan End, 1)
	go func() {
		out := respond.New(holding{httptest.NewRecorder()}, 0)
		end, _ := a.Pass(&Stream{Out: &out, CanPoll: true})
		ended <- end
	}()
	select {
	case end := <-ended:
		require.Equal(t, HeldBack, end)
	case <-time.After(patience):
		t.Fatal("it was not noticed")
	}
}
