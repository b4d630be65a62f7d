//go:build node

package conformance_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The clients of the matrix are the installed ones, in the installed versions.
func TestClientsAreThoseOfTheLock(t *testing.T) {
	text, err := os.ReadFile("clients/node/package.json")
	require.NoError(t, err)
	var manifest struct{ Dependencies map[string]string }
	require.NoError(t, json.Unmarshal(text, &manifest))
	var want, got []string
	for name, version := range manifest.Dependencies {
		if pinned, ok := strings.CutPrefix(version, "npm:"); ok { // installed under another name
			at := strings.LastIndex(pinned, "@")
			name, version = pinned[:at], pinned[at+1:]
		}
		want = append(want, name+" "+version)
	}
	for _, c := range customers() {
		if c.name == ours {
			continue
		}
		if words := strings.Fields(strings.ReplaceAll(c.name, ",", "")); !strings.HasPrefix(words[1], "v") { // for Go clients the .mod files have the version
			got = append(got, words[0]+" "+words[1])
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	require.Equal(t, want, slices.Compact(got))
}

func TestSettingsAreNamedTogether(t *testing.T) {
	all := settings()
	for _, c := range []struct {
		want string
		some []setting
	}{
		{"each", all},
		{"Legacy", all[:3]},
		{"Both", all[3:]},
		{"NewApp, Legacy", all[:1]},
		{"Legacy; NewApp, Both", all[:4]},
		{"mcp-go, Legacy; mcp-go, Both", []setting{all[2], all[5]}},
	} {
		require.Equal(t, c.want, together(c.some))
	}
}
