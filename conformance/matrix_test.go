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

	processes int // of a cluster, which get the requests in turn; 0: one, and no cluster
}

func (s setting) String() string {
	if s.eras == rejoin.EraBoth {
		return s.server + ", Both"
	}
	return s.server + ", Legacy"
}

// isOfFew reports whether the few clients meet two processes in this setting: where they use sessions, and in one where they may not, for there any
// process serves any request.
func (s setting) isOfFew() bool { return s.eras == rejoin.EraLegacy || s.server == "NewApp" }

// settings are the servers of the matrix: those of one era, then those of both.
func settings() []setting {
	return []setting{
		{"NewApp", listedApp, rejoin.EraLegacy, 0},
		{"go-sdk", bridgedGoSDK, rejoin.EraLegacy, 0},
		{"mcp-go", bridgedMCPGo, rejoin.EraLegacy, 0},
		{"NewApp", listedApp, rejoin.EraBoth, 0},
		{"go-sdk", bridgedGoSDK, rejoin.EraBoth, 0},
		{"mcp-go", bridgedMCPGo, rejoin.EraBoth, 0},
	}
}

// TestClients runs widely used clients, each in each setting and scenario, and compares what they do with docs/clients.md: first behind one
// process, then behind two. On a busy machine some clients give up after time-outs of their own, so a client that does not do what the document
// says runs once more.
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
	one, two := album{}, album{}
	meetAll(t, "meet", met, one, nil)
	if *update {
		require.NoError(t, os.WriteFile(clientsDoc, []byte(document(one, met)), 0o600))
	}
	requireDocumented(t, met, one, nil)
	meetAll(t, "meet two", met, two, one)
	requireDocumented(t, met, two, one)
}

// requireDocumented compares an album with the document. The other arguments are those of meetAll.
func requireDocumented(t *testing.T, met []customer, a, one album) {
	t.Helper()
	text, err := os.ReadFile(clientsDoc)
	require.NoError(t, err, "make clients-table writes it")
	want := string(text)
	differs := func(c customer) bool { return !slices.Equal(rowsOf(want, c.name), rowsOf(document(a, met), c.name)) }
	others := slices.DeleteFunc(slices.Clone(met), func(c customer) bool { return !differs(c) })
	meetAll(t, "meet again", others, a, one)
	got := document(a, met)
	for _, c := range met {
		require.Equal(t, rowsOf(want, c.name), rowsOf(got, c.name), "if this is as it should be, make clients-table writes it down")
	}
	if !*few {
		require.Equal(t, want, got, "make clients-table writes it down")
	}
}

// meetAll runs clients, several at once, and puts the sights into the album. If one is not nil, it is the album of one process, and the clients meet
// two.
func meetAll(t *testing.T, name string, clients []customer, a, one album) {
	t.Helper()
	var mu sync.Mutex
	t.Run(name, func(t *testing.T) { // returns when all clients have ended
		for _, c := range clients {
			command := c.command(t)
			for _, in := range settings() {
				for _, what := range scenariosOf(c, in) {
					v := view{c.name, in.String(), what.name}
					if one != nil {
						if in.processes = 2; *few && !in.isOfFew() {
							a[v] = one[v]
							continue
						}
					}
					t.Run(strings.Join([]string{strings.ReplaceAll(c.name, "/", "_"), in.String(), what.name}, "/"), func(t *testing.T) {
						t.Parallel()
						seen := meet(t, c.name, command, in, what)
						t.Logf("%+v", seen)
						require.False(t, seen.forced, "a client was given a task that it had not declared to know")
						mu.Lock()
						defer mu.Unlock()
						a[v] = seen
					})
				}
			}
		}
	})
}
