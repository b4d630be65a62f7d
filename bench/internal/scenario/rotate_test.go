package scenario

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/bench/internal/results"
)

func quiet() *Env { return &Env{Log: func(string, ...any) {}} }

func every(string) bool { return true }

// recordingScenario is a scenario that records which subjects ran, and returns the values of run.
func recordingScenario(ran *[]string, run func(name string) (map[string]float64, error)) Scenario {
	return Scenario{
		ID: "scripted", Title: "Title", Text: "Text", Metrics: []results.Metric{{Key: "v"}}, Subjects: []string{"a", "b", "c"},
		Base: func(string) string { return "a" },
		Run: func(_ context.Context, _ *Env, name string) (map[string]float64, error) {
			*ran = append(*ran, name)
			return run(name)
		},
	}
}

// Subjects that are compared run one after the other, the base first, and each round begins with another group.
func TestEachRoundBeginsWithAnotherGroup(t *testing.T) {
	var ran []string
	s := recordingScenario(&ran, func(name string) (map[string]float64, error) {
		return map[string]float64{"v": float64(name[0] - 'a' + 1)}, nil
	})
	s.Subjects = []string{"a", "b", "c", "d", "e", "f", "g"}
	s.Base = func(name string) string {
		return map[string]string{"a": "a", "b": "a", "c": "a", "d": "d", "e": "e", "f": "d", "g": "e"}[name]
	}
	table, err := Measure(t.Context(), quiet(), s, every, 3)
	require.NoError(t, err)
	require.Equal(t, "abcdefg defgabc abcdefg", strings.Join([]string{
		strings.Join(ran[:7], ""), strings.Join(ran[7:14], ""), strings.Join(ran[14:], ""),
	}, " "))
	require.Equal(t, [3]string{"scripted", "Title", "Text"}, [3]string{table.ID, table.Title, table.Text})
	require.Len(t, table.Rows, 7)
	for i, r := range table.Rows {
		require.Equal(t, s.Subjects[i], r.Subject, "the order of the table does not rotate")
		require.Equal(t, s.Base(r.Subject), r.Base)
		require.InDelta(t, float64(i+1)/float64(r.Base[0]-'a'+1), r.Values["v"].Ratio, 1e-9)
	}
}

func TestTheBaseRunsWithWhomIsWanted(t *testing.T) {
	var ran []string
	s := recordingScenario(&ran, func(string) (map[string]float64, error) { return map[string]float64{"v": 1}, nil })
	_, err := Measure(t.Context(), quiet(), s, func(name string) bool { return name == "c" }, 1)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "c"}, ran)
	s.Base = nil
	s.Subjects = []string{"bare-json", "bare-sse", "gosdk-json"}
	ran = nil
	_, err = Measure(t.Context(), quiet(), s, func(name string) bool { return name == "gosdk-json" }, 1)
	require.NoError(t, err)
	require.Equal(t, []string{"bare-json", "gosdk-json"}, ran, "a subject's own base")
}

func TestAFailureIsToldAndEndsNothing(t *testing.T) {
	for _, bad := range []map[string]float64{nil, {}, {"unknown": 1}, {"v": math.NaN()}, {"v": math.Inf(1)}} {
		var ran []string
		s := recordingScenario(&ran, func(name string) (map[string]float64, error) {
			switch {
			case name != "b":
				return map[string]float64{"v": 1}, nil
			case bad == nil:
				return nil, errors.New("it broke")
			}
			return bad, nil
		})
		table, err := Measure(t.Context(), quiet(), s, every, 2)
		require.ErrorContains(t, err, "scripted, b, round 2: ")
		require.Len(t, ran, 6)
		require.Empty(t, table.Rows[1].Values)
		require.Len(t, table.Rows[2].Values["v"].Ratios, 2)
	}
}

func TestItEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var ran []string
	s := recordingScenario(&ran, func(name string) (map[string]float64, error) {
		if name == "b" {
			cancel()
		}
		return map[string]float64{"v": 1}, nil
	})
	_, err := Measure(ctx, quiet(), s, every, 2)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, []string{"a", "b"}, ran)
}
