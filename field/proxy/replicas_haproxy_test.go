//go:build nginx

package proxy

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
)

// haproxyBefore starts HAProxy with the configuration of docs/replicas.md in front of replicas.
func haproxyBefore(t *testing.T, s *service) *gate {
	t.Helper()
	conf := exchange(t, recipe(t, "haproxy", 0, s), "bind :443 ssl crt /etc/haproxy/mcp.pem alpn h2,http/1.1", "bind fd@3")
	h := runHAProxy(t, conf)
	g := newGate(t, h.URL)
	g.settled = func(i int) { h.said.await(t, fmt.Sprintf("Server reports/r%d is DOWN", i+1)) }
	return g
}

// The configuration of docs/replicas.md works, and saves all hops. If two requests of a session come at once when its owner is dead, one replica may
// adopt it while HAProxy remembers the other.
func TestHAProxyBeforeReplicas(t *testing.T) {
	t.Parallel()
	t.Run("replicas are replaced", func(t *testing.T) {
		t.Parallel()
		testDrain(t, haproxyBefore, 2) // it takes two seconds to notice
	})
	t.Run("a replica is killed", func(t *testing.T) {
		t.Parallel()
		ofAll, ofAdopted := testKill(t, haproxyBefore)
		require.Zero(t, ofAll-ofAdopted)
	})
	t.Run("nothing happens", func(t *testing.T) {
		t.Parallel()
		s := startReplicas(t, own(inParts))
		c := join(t, haproxyBefore(t, s))
		c.wait(t, 3)
		require.Empty(t, c.leave())
		require.Zero(t, s.sum(func(s rejoin.Stats) int64 { return s.Forwarded }))
		for _, r := range s.all {
			require.Positive(t, r.srv.Stats().Opened, "new sessions go in turn")
		}
	})
	t.Run("a server dies without an answer", func(t *testing.T) {
		t.Parallel()
		testOnce(t, haproxyBefore)
	})
	t.Run("events", func(t *testing.T) {
		t.Parallel()
		requireAtOnce(t, haproxyBefore)
	})
}
