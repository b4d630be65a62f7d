package main

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	childMain() // a child must not run the tests, which start children
	m.Run()
}

// A short soak succeeds: every event is accounted for, and the servers hold as little as before. The test does not depend on how much happens
// in three seconds, which depends on the machine.
func TestShortSoak(t *testing.T) {
	j := defaults()
	j.For, j.Clients, j.Every, j.Rate, j.Seed = 3*time.Second, 40, time.Second, 20, 1
	j.IdleTTL, j.Retain, j.Abandon, j.Longest = 3*time.Second, 2*time.Second, 2*time.Second, 2*time.Second
	j.Profile = filepath.Join(t.TempDir(), "heap.pprof")
	var out strings.Builder
	require.NoError(t, soak(t.Context(), j, &out), "%s", &out)
	require.Contains(t, out.String(), "| completed |", "it has not been idle")
}

// A heap that has grown fails the soak, and a profile is written.
func TestAHeapThatHasGrownFailsAndIsProfiled(t *testing.T) {
	j := defaults()
	j.Clients, j.Profile = 10, filepath.Join(t.TempDir(), "heap.pprof")
	var out strings.Builder
	servers, err := start(t.Context(), "serve", &out)
	require.NoError(t, err)
	defer func() { require.NoError(t, servers.end()) }()
	_, err = servers.ask(question{Do: "serve", Job: j})
	require.NoError(t, err)
	a, err := servers.ask(question{Do: "collect"})
	require.NoError(t, err)
	r := &reporter{job: j, out: &out, base: a.Sample, peaks: map[string]float64{}} // the clients have ended long ago
	require.NoError(t, r.baseline(t.Context(), servers), "nothing has happened")
	r.base.Heap -= r.allowedGrowth() + 1<<20
	require.ErrorContains(t, r.baseline(t.Context(), servers), j.Profile)
	profile, err := os.ReadFile(j.Profile)
	require.NoError(t, err)
	require.NotEmpty(t, profile)
}

func TestFlags(t *testing.T) {
	for _, args := range [][]string{{"-for", "0"}, {"-clients", "0"}, {"-rate", "-1"}, {"x"}, {"-what"}} {
		var out strings.Builder
		require.Error(t, run(t.Context(), args, &out, &out), "%s", args)
	}
}

// bareSession is a session without a server.
func bareSession() *session {
	c := &clientProcess{job: defaults(), sites: []site{{Router: "none", App: "none"}}, stopping: make(chan struct{})}
	return newSession(c, 0, 0, rand.New(rand.NewPCG(0, 0)))
}
