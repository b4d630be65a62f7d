//go:build nginx

package proxy

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
)

// nginxBefore starts nginx with a configuration of docs/replicas.md in front of replicas: the first block, and the upstream of the second one if hashed.
func nginxBefore(hashed bool) func(t *testing.T, s *service) *gate {
	return func(t *testing.T, s *service) *gate {
		t.Helper()
		conf := recipe(t, "nginx", 0, s)
		if hashed {
			upstream := conf[:indexAfter(t, conf, "\n}\n")]
			conf = exchange(t, conf, upstream, recipe(t, "nginx", 1, s))
		}
		conf = exchange(t, conf, "listen 443 ssl;", "include server.conf;")
		return newGate(t, run(t, "", plain, settings{location: conf}).URL)
	}
}

// The configurations of docs/replicas.md work. Where requests go in turn, two of three are forwarded. Hashing does not change that, until a session
// was adopted: it is then where its hash points to.
func TestNginxBeforeReplicas(t *testing.T) {
	t.Parallel()
	for name, hashed := range map[string]bool{"in turn": false, "hashed": true} {
		t.Run(name+", replicas are replaced", func(t *testing.T) {
			t.Parallel()
			testDrain(t, nginxBefore(hashed), 3)
		})
		t.Run(name+", a replica is killed", func(t *testing.T) {
			t.Parallel()
			ofAll, ofAdopted := testKill(t, nginxBefore(hashed))
			require.Positive(t, ofAll)
			require.Equal(t, hashed, ofAdopted == 0)
		})
		t.Run(name+", new sessions", func(t *testing.T) {
			t.Parallel()
			s := startReplicas(t, own(inParts))
			g := nginxBefore(hashed)(t, s)
			const sessions = 60
			for range sessions {
				open(t, g)
			}
			for _, r := range s.all {
				require.Equal(t, int64(sessions/3), r.srv.Stats().Opened, "requests without a session go in turn")
			}
			if hashed { // in turn, the notification of a session always goes to another replica than its initialize
				hops := s.sum(func(s rejoin.Stats) int64 { return s.Forwarded })
				require.InDelta(t, sessions*2/3, hops, sessions/4, "of one notification each")
			}
		})
		t.Run(name+", a server dies without an answer", func(t *testing.T) {
			t.Parallel()
			testOnce(t, nginxBefore(hashed))
		})
		t.Run(name+", events", func(t *testing.T) {
			t.Parallel()
			requireAtOnce(t, nginxBefore(hashed))
		})
	}
}

// sum adds up a number of all replicas.
func (s *service) sum(of func(rejoin.Stats) int64) (n int64) {
	for _, r := range s.all {
		n += of(r.srv.Stats())
	}
	return n
}
