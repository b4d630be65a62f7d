package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/bench/internal/proc"
	"github.com/rejoin-mcp/rejoin/bench/internal/results"
	"github.com/rejoin-mcp/rejoin/bench/internal/subject"
)

// The processes are this test binary, started again.
func TestMain(m *testing.M) {
	proc.Main(subject.Find)
	os.Exit(m.Run())
}

func do(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := command(t.Context(), args, &out)
	return out.String(), err
}

func TestRunWritesWhatItFound(t *testing.T) {
	name := filepath.Join(t.TempDir(), "out.json")
	_, err := do(t, "run", "-quick", "-rounds", "2", "-scenarios", "^handler$", "-subjects", "^rejoin-json$", "-out", name)
	require.NoError(t, err)
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	var found results.Run
	require.NoError(t, json.Unmarshal(text, &found))
	require.Equal(t, 2, found.Rounds)
	require.Positive(t, found.Machine.Cores)
	require.Positive(t, found.Machine.Memory)
	require.Contains(t, found.Machine.System, "Linux ")
	require.NotEmpty(t, found.Versions["go"])
	require.Len(t, found.Scenarios, 1)
	require.Len(t, found.Scenarios[0].Rows, 2, "with its base")
	for i, name := range []string{"bare-json", "rejoin-json"} {
		row := found.Scenarios[0].Rows[i]
		require.Equal(t, name, row.Subject)
		require.Equal(t, "bare-json", row.Base)
		require.Len(t, row.Values["allocs"].Ratios, 2)
	}
}

func TestRunThatIsEndedSaysSo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer
	require.ErrorIs(t, command(ctx, []string{"run", "-quick"}, &out), context.Canceled)
	require.Contains(t, out.String(), `"scenarios": null`)
}

func TestListNamesAllThatCanBeChosen(t *testing.T) {
	out, err := do(t, "list")
	require.NoError(t, err)
	require.Contains(t, out, "calls-pinned: ")
	require.Contains(t, out, "rejoin-gosdk-sse")
}

func TestWhatCannotBeDoneIsAnError(t *testing.T) {
	for want, args := range map[string][]string{
		"run, report, list": nil,
		"no command":        {"walk"},
		"three arguments":   {"report", "x"},
		"no such file":      {"report", filepath.Join(t.TempDir(), "x"), filepath.Join(t.TempDir(), "y"), t.TempDir()},
		"missing closing":   {"run", "-scenarios", "("},
		"error parsing":     {"run", "-subjects", "("},
		"not defined":       {"run", "-fast"},
		"nothing matches":   {"run", "-scenarios", "^none$"},
	} {
		_, err := do(t, args...)
		require.ErrorContains(t, err, want)
	}
}
