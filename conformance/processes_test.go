package conformance_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/conformance/internal/spray"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

// process is one server of a cluster. It has a router, a socket and a way to the engine of its own, as if it were a process of its own.
type process struct {
	srv    *rejoin.Server
	server *httptest.Server
	link   *clustertest.Faulty
	dead   bool
}

// servedBy is a field of each answer, with the URL of the process that the client, or the front, has asked.
const servedBy = "Test-Served-By"

// processes are the servers of a cluster.
type processes []*process

// startProcesses starts servers of one cluster, each with an app of its own. cfg may have a Cluster, of which only the name and addresses are set.
func startProcesses(t *testing.T, n int, newApp func() rejoin.App, cfg rejoin.Config) (all processes) {
	t.Helper()
	engine := cluster.NewMemory(eventstore.MemoryConfig{})
	for range n {
		p := &process{server: httptest.NewUnstartedServer(nil), link: clustertest.NewFaulty(engine, engine, nil)}
		p.link.SetInstant(true)
		own := rejoin.Cluster{}
		if cfg.Cluster != nil {
			own = *cfg.Cluster
		}
		own.Name, own.Self = "test", "http://"+p.server.Listener.Addr().String()
		cfg.Store, cfg.Cluster = p.link, &own
		var err error
		p.srv, err = rejoin.NewServer(newApp(), cfg)
		require.NoError(t, err)
		mux := http.NewServeMux()
		stdadapter.Register(mux, "/mcp", p.srv)
		p.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(servedBy, own.Self)
			mux.ServeHTTP(w, r)
		})
		p.server.Start()
		all = append(all, p)
	}
	return all
}

// front returns what sends each request to the next of the processes, without stickiness.
func (all processes) front() http.Handler {
	var addresses []string
	for _, p := range all {
		addresses = append(addresses, p.server.Listener.Addr().String())
	}
	return spray.New(addresses...)
}

// owner is the process that has the one session. It stays among the processes when it is dead.
func (all processes) owner(t *testing.T) *process {
	t.Helper()
	at := slices.IndexFunc(all, func(p *process) bool { return p.srv.Stats().Sessions == 1 })
	require.GreaterOrEqual(t, at, 0, "no process has the session")
	return all[at]
}

// kill ends a process for all others: it has no connection any more, and takes none, and does not reach the engine.
func (p *process) kill(t *testing.T) {
	t.Helper()
	p.link.SetLink(clustertest.Refused)
	require.NoError(t, p.server.Config.Close())
	p.dead = true
}

// stats are sums, without the dead.
func (all processes) stats() (sum rejoin.Stats) {
	for _, p := range all {
		if p.dead {
			continue
		}
		s := p.srv.Stats()
		sum.Sessions, sum.StoredBytes = sum.Sessions+s.Sessions, s.StoredBytes // they have one store
		sum.Opened, sum.Closed, sum.Resumed, sum.Refused = sum.Opened+s.Opened, sum.Closed+s.Closed, sum.Resumed+s.Resumed, sum.Refused+s.Refused
		sum.Forwarded, sum.Received, sum.Adopted = sum.Forwarded+s.Forwarded, sum.Received+s.Received, sum.Adopted+s.Adopted
	}
	return sum
}

// close ends the servers, and then the connections.
func (all processes) close() {
	for _, p := range all {
		p.srv.Close()
	}
	for _, p := range all {
		p.server.Close()
	}
}
