package scenario

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/bench/internal/load"
	"github.com/rejoin-mcp/rejoin/bench/internal/proc"
	"github.com/rejoin-mcp/rejoin/bench/internal/results"
	"github.com/rejoin-mcp/rejoin/bench/internal/subject"
)

func TestAWrongAnswerIsFound(t *testing.T) {
	_, err := runCalls(t.Context(), &Env{Quick: true}, "wrong-answers", proc.AnyCPU, proc.AnyCPU)
	require.ErrorContains(t, err, `"text":"the text of call 100000001, to be given back"`)
}

func TestOneCallOfACountIsCountedOnce(t *testing.T) {
	s, err := proc.Start(t.Context(), proc.Spec{Subject: "null", CPU: proc.AnyCPU})
	require.NoError(t, err)
	c, err := load.Dial(s.Addr)
	require.NoError(t, err)
	defer c.Close()
	one := []caller{newCaller(c, echoCall(""), load.Number)}
	_, times, err := callAll(one, 0) // the time is up after the first
	require.NoError(t, err)
	require.Len(t, times, 1)
	require.Equal(t, load.Number+1, one[0].number)
	require.NoError(t, s.Stop())
}

func TestQuantiles(t *testing.T) {
	require.Zero(t, quantile(nil, 0.5))
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(i)
	}
	require.Equal(t, time.Duration(50), quantile(hundred, 0.5))
	require.Equal(t, time.Duration(99), quantile(hundred, 0.99))
	require.Equal(t, time.Duration(99), quantile(hundred, 1))
}

// The cost of a handler does not contain the cost of making the request.
func TestAHandlerIsMeasuredAlone(t *testing.T) {
	const made = 7
	var kept [][]byte
	d := &direct{
		body: load.NewTemplate(load.Call(load.Number, subject.Echo, `{}`)), want: answerTo(load.Number), number: load.Number,
		w: cheapWriter{header: http.Header{}},
		handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			kept = kept[:0]
			for range made {
				kept = append(kept, make([]byte, 1024))
			}
		}),
	}
	whole, err := d.measure(10, 1000)
	require.NoError(t, err)
	d.handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	empty, err := d.measure(10, 1000)
	require.NoError(t, err)
	require.InDelta(t, made, whole.allocs-empty.allocs, 0.5)
	require.InDelta(t, made*1024, whole.bytes-empty.bytes, 512)
}

func TestAHandlerThatAnswersWronglyIsFound(t *testing.T) {
	h, err := newWrongAnswers(subject.Options{})
	require.NoError(t, err)
	d, err := newDirect(h)
	require.NoError(t, err)
	require.NoError(t, d.call(), "the first one is right")
	require.ErrorContains(t, d.call(), "call 100000002")
	d.handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	require.ErrorContains(t, d.call(), "no answer")
}

// The error of a server that fails has what the server wrote to stderr.
func TestAnUnknownSubjectFails(t *testing.T) {
	s := Scenario{ID: "x", Metrics: []results.Metric{{Key: "calls/s"}}, Subjects: []string{"nobody"}, Run: func(ctx context.Context, env *Env, name string) (map[string]float64, error) {
		return runCalls(ctx, env, name, env.Server, env.Client)
	}}
	_, err := Measure(t.Context(), quiet(), s, every, 1)
	require.ErrorContains(t, err, `no subject is named "nobody"`)
	require.NotErrorIs(t, err, errors.ErrUnsupported)
}
