package main

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	childMain() // a child must not run the tests, which start children
	m.Run()
}

// A short soak goes well: every event is accounted for, and the servers come back to their base line. How much happens in three seconds
// depends on the machine, and nothing here does.
func TestShortSoak(t *testing.T) {
	j := defaults()
	j.For, j.Clients, j.Every, j.Rate, j.Seed = 3*time.Second, 40, time.Second, 20, 1
	j.IdleTTL, j.Retain, j.Abandon, j.Longest = 3*time.Second, 2*time.Second, 2*time.Second, 2*time.Second
	var out strings.Builder
	require.NoError(t, soak(t.Context(), j, &out), "%s", &out)
	require.Contains(t, out.String(), "| completed |", "it has not been idle")
}

func TestFlags(t *testing.T) {
	for _, args := range [][]string{{"-for", "0"}, {"-clients", "0"}, {"-rate", "-1"}, {"x"}, {"-what"}} {
		var out strings.Builder
		require.Error(t, run(t.Context(), args, &out, &out), "%s", args)
	}
}

// bareSession is one that nobody serves.
func bareSession() *session {
	c := &crowd{job: defaults(), sites: []site{{Router: "none", App: "none"}}, calm: make(chan struct{})}
	return newSession(c, 0, 0, rand.New(rand.NewPCG(0, 0)))
}
