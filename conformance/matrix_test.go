//go:build node

package conformance_test

import (
	"flag"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
)

var (
	update = flag.Bool("update", false, "write the document of the clients anew")
	few    = flag.Bool("few", false, "meet the few clients that each change is tested with")
)

const clientsDoc = "../docs/clients.md"

// setting is a kind of server for the clients.
type setting struct {
	server string
	app    func(tools) rejoin.App
	eras   rejoin.Eras
}

func (s setting) String() string {
	if s.eras == rejoin.EraBoth {
		return s.server + ", Both"
	}
	return s.server + ", Legacy"
}

// settings are the servers of the matrix: those of one era, then those of both.
func settings() []setting {
	return []setting{
		{"NewApp", listedApp, rejoin.EraLegacy},
		{"go-sdk", bridgedGoSDK, rejoin.EraLegacy},
		{"mcp-go", bridgedMCPGo, rejoin.EraLegacy},
		{"NewApp", listedApp, rejoin.EraBoth},
		{"go-sdk", bridgedGoSDK, rejoin.EraBoth},
		{"mcp-go", bridgedMCPGo, rejoin.EraBoth},
	}
}

// TestClients runs widely used clients, each in each setting and scenario, and compares what they do with docs/clients.md. On a busy machine
// some clients give up after time-outs of their own, so a client that does not do what the document says runs once more.
func TestClients(t *testing.T) {
	require.False(t, *update && *few, "the document is about all clients")
	for _, args := range [][]string{nil, {"clients/node"}} {
		out, err := exec.CommandContext(t.Context(), "./install", args...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	var met []customer
	for _, c := range customers() {
		if c.often || !*few {
			met = append(met, c)
		}
	}
	a := album{}
	meetAll(t, "meet", met, a)
	if *update {
		require.NoError(t, os.WriteFile(clientsDoc, []byte(document(a, met)), 0o600))
		return
	}
	text, err := os.ReadFile(clientsDoc)
	require.NoError(t, err, "make clients-table writes it")
	want := string(text)
	differs := func(c customer) bool { return !slices.Equal(rowsOf(want, c.name), rowsOf(document(a, met), c.name)) }
	others := slices.DeleteFunc(slices.Clone(met), func(c customer) bool { return !differs(c) })
	meetAll(t, "meet again", others, a)
	got := document(a, met)
	for _, c := range met {
		require.Equal(t, rowsOf(want, c.name), rowsOf(got, c.name), "if this is as it should be, make clients-table writes it down")
	}
	if !*few {
		require.Equal(t, want, got, "make clients-table writes it down")
	}
}

// meetAll runs clients, several at once, and puts the sights into the album.
func meetAll(t *testing.T, name string, clients []customer, a album) {
	t.Helper()
	var mu sync.Mutex
	t.Run(name, func(t *testing.T) { // returns when all clients have ended
		for _, c := range clients {
			command := c.command(t)
			for _, in := range settings() {
				for _, what := range scenariosOf(c, in) {
					t.Run(strings.Join([]string{strings.ReplaceAll(c.name, "/", "_"), in.String(), what.name}, "/"), func(t *testing.T) {
						t.Parallel()
						seen := meet(t, c.name, command, in, what)
						t.Logf("%+v", seen)
						require.False(t, seen.forced, "a client was given a task that it had not declared to know")
						mu.Lock()
						defer mu.Unlock()
						a[view{c.name, in.String(), what.name}] = seen
					})
				}
			}
		}
	})
}
