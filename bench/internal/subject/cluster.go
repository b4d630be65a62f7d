package subject

import (
	"cmp"
	"fmt"
	"net/http"
	"time"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

// clustered are servers in a cluster of one process.
var clustered = func() (all []Subject) {
	for _, e := range []struct {
		name  string
		kind  engine
		notes string
	}{
		{"", engine{}, "It is used as what it is: in memory, so it never waits."},
		{"-0", engine{remote: true}, "It is used as one across the network, which takes no time."},
		{"-500", engine{remote: true, wait: 500 * time.Microsecond}, "It is used as one across the network, each of whose calls takes at least half a millisecond."},
	} {
		for _, s := range []Subject{
			{Name: "json", Base: bareJSON},
			{Name: "sse", Base: bareStore, Stream: true},
		} {
			s.Primes, s.Stores, s.Closes, s.Session = true, true, true, true
			s.Notes = fmt.Sprintf("The server of rejoin-%s in a cluster of one process. The engine is cluster.Memory. %s", s.Name, e.notes)
			s.Name, s.New = "rejoin-cluster"+e.name+"-"+s.Name, newClustered(modeOf(s), e.kind)
			all = append(all, s)
		}
	}
	return all
}()

func newClustered(mode rejoin.Mode, kind engine) func(Options) (http.Handler, error) {
	return func(o Options) (http.Handler, error) {
		return newMember(mode, o, newEngine(kind, o), cmp.Or(o.Self, nowhere))
	}
}

// nowhere is the URL of a process that no other one needs to reach.
const nowhere = "http://127.0.0.1:1"

func newEngine(kind engine, o Options) *engine {
	kind.Memory, kind.Engine = cluster.NewMemory(eventstore.MemoryConfig{SessionBytes: o.StoreBytes, TotalBytes: o.StoreBytes}), cmp.Or(o.Engine, &Engine{})
	return &kind
}

// newMember makes a server of a cluster, whose engine is a store with a directory. The others reach it at self.
func newMember(mode rejoin.Mode, o Options, engine eventstore.Store, self string) (http.Handler, error) {
	cfg := rejoinConfig(mode)
	cfg.Store = engine
	cfg.Cluster = &rejoin.Cluster{Name: serverName, Self: self, Lease: o.Lease}
	if o.StoreBytes > 0 { // the scenario sees to it that it fits
		cfg.Cluster.TailBytes = -1
	}
	s, err := rejoin.NewServer(ownApp(o), cfg)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	stdadapter.Register(mux, Path, s)
	return mux, nil
}
