//go:build node

package conformance_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// These tests are about check.mjs, which judges the results of the suite. `make conformance` runs them.

// suiteCheck is a check as the suite writes it.
type suiteCheck struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Error  string `json:"errorMessage,omitempty"`
}

// suiteResults are the results of a run, by scenario. A nil scenario was not run.
type suiteResults map[string][]suiteCheck

// expectedResults returns what the suite writes about a server that does everything.
func expectedResults(t *testing.T, set string) suiteResults {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "./install").CombinedOutput()
	require.NoError(t, err, "%s", out)
	out, err = exec.CommandContext(t.Context(), "node_modules/.bin/node", "-e",
		`import('./expected.mjs').then((m) => console.log(JSON.stringify([m.expected[process.argv[1]], m.vacuous[process.argv[1]] ?? {}])))`, set).Output()
	require.NoError(t, err)
	var scenarios map[string][]string
	var vacuous map[string]string
	require.NoError(t, json.Unmarshal(out, &[]any{&scenarios, &vacuous}))
	results := suiteResults{}
	for scenario, ids := range scenarios {
		for _, id := range ids {
			status := "SUCCESS"
			if other, ok := vacuous[scenario+":"+id]; ok {
				status = other
			}
			results[scenario] = append(results[scenario], suiteCheck{ID: id, Status: status})
		}
	}
	return results
}

// check runs check.mjs and returns its output. The exceptions are those of a fixture.
func (r suiteResults) check(t *testing.T, set, exceptions string) (output string, passed bool) {
	t.Helper()
	dir := t.TempDir()
	for scenario, checks := range r {
		folder := filepath.Join(dir, "server-"+scenario+"-2026-11-30T03-40-56-864Z")
		require.NoError(t, os.Mkdir(folder, 0o700))
		if checks == nil {
			continue
		}
		data, err := json.Marshal(checks)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(folder, "checks.json"), data, 0o600))
	}
	args := []string{"check.mjs", dir, set}
	if exceptions != "" {
		file := filepath.Join(t.TempDir(), "expected-failures.yml")
		require.NoError(t, os.WriteFile(file, []byte(exceptions), 0o600))
		args = append(args, file)
	}
	out, err := exec.CommandContext(t.Context(), "node_modules/.bin/node", args...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil {
		require.ErrorAs(t, err, &exit, "%s", out)
	}
	return string(out), err == nil
}

func TestCheckPassesWhatSucceeds(t *testing.T) {
	for set, checks := range map[string]int{"2025-11-25": 84, "2026-07-28": 153, "tasks": 44 + 1} {
		out, passed := expectedResults(t, set).check(t, set, "")
		require.True(t, passed, out)
		require.Contains(t, out, fmt.Sprintf("conformance: %d checks as expected, 0 not\n", checks))
	}
}

// For the suite, a scenario that it skips and a check that it does not make are no failures.
func TestCheckFailsWhenAnythingIsMissing(t *testing.T) {
	complete := expectedResults(t, "tasks")
	require.Len(t, complete, 10)
	for _, scenario := range slices.Sorted(maps.Keys(complete)) {
		t.Run(scenario, func(t *testing.T) {
			fails := func(want string, checks ...suiteCheck) {
				t.Helper()
				results := maps.Clone(complete)
				results[scenario] = checks
				out, passed := results.check(t, "tasks", "")
				require.False(t, passed, out)
				require.Contains(t, out, fmt.Sprintf("FAIL %s: %s", scenario, want))
			}
			results := maps.Clone(complete)
			delete(results, scenario)
			out, passed := results.check(t, "tasks", "")
			require.False(t, passed, out)
			require.Contains(t, out, fmt.Sprintf("FAIL %s: -: expected one result, there are 0\n", scenario))
			fails("-: the suite did not run it\n")

			all := complete[scenario]
			i := len(all) / 2 // one check of each scenario is enough
			id := all[i].ID
			fails(id+": made 0 times, not 1\n", slices.Delete(slices.Clone(all), i, i+1)...)
			fails(id+": made 2 times, not 1\n", append(slices.Clone(all), all[i])...)
			fails("another: unexpected: SUCCESS\n", append(slices.Clone(all), suiteCheck{ID: "another", Status: "SUCCESS"})...)
			for _, status := range []string{"FAILURE", "WARNING", "INFO", "SKIPPED", "SUCCESS"} {
				if status == all[i].Status || status == "SUCCESS" && scenario != "tasks-status-notifications" {
					continue
				}
				changed := slices.Clone(all)
				changed[i] = suiteCheck{ID: id, Status: status, Error: "why"}
				if status == "SUCCESS" {
					fails(id+": it is listed with SKIPPED, which it no longer has\n", changed...)
				} else {
					fails(id+": "+status+": why\n", changed...)
				}
			}
		})
	}
	complete["tasks-of-tomorrow"] = complete["tasks-lifecycle"]
	out, passed := complete.check(t, "tasks", "")
	require.False(t, passed, out)
	require.Contains(t, out, "FAIL tasks-of-tomorrow: -: check.mjs does not know which checks to expect\n")
}

func TestCheckKnowsExceptions(t *testing.T) {
	const entry = "server:\n  - tasks-lifecycle:tasks-sync-tool-call # tasks WARNING: because\n"
	results := expectedResults(t, "tasks")
	out, passed := results.check(t, "tasks", entry)
	require.False(t, passed, out)
	require.Contains(t, out, "tasks-sync-tool-call: it is listed with WARNING, which it no longer has\n")

	results["tasks-lifecycle"][0].Status = "WARNING"
	out, passed = results.check(t, "tasks", entry)
	require.True(t, passed, out)
	require.Contains(t, out, "tasks-sync-tool-call: as listed: WARNING")

	out, passed = results.check(t, "tasks", entry+"  - tasks-lifecycle:nonesuch # tasks WARNING: because\n")
	require.False(t, passed, out)
	require.Contains(t, out, "this names no check of a revision, its status and a reason\n")
}
