package cluster_test

import (
	"context"
	"fmt"
	"time"

	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

// A session changes hands: the second process finds the record, adopts the session, and goes on with its logs. The first one is refused
// from then on.
func Example() {
	ctx := context.Background()
	engine := cluster.NewMemory(eventstore.MemoryConfig{}) // in real life a network is between it and the processes

	first := cluster.Process{Cluster: "reports", Incarnation: "f7", Self: "http://10.0.0.1:8080"}
	fence := eventstore.Fence{Incarnation: first.Incarnation, Epoch: 1}
	record := &cluster.Record{Session: "s", Fence: fence, Self: first.Self, Generation: 1}
	_ = engine.Put(ctx, record, time.Hour)
	log := engine.Log(eventstore.Key{Session: "s", Stream: "call", Fence: fence, About: "a call that runs"})
	_ = log.Append(ctx, 1, [][]byte{[]byte("half done")}, false)

	second := cluster.Process{Cluster: "reports", Incarnation: "c3", Self: "http://10.0.0.2:8080"}
	found, _ := engine.Find(ctx, "s", second)
	adopted, streams, err := engine.Adopt(ctx, "s", found.Record.Fence, cluster.Member{Process: second, Generation: 1}, time.Hour)
	fmt.Println(adopted.Self, adopted.Fence.Epoch, err)
	fmt.Println(streams[0].Name, streams[0].About, streams[0].Last)
	fmt.Println(log.Append(ctx, 2, [][]byte{[]byte("done")}, true))
	// Output:
	// http://10.0.0.2:8080 2 <nil>
	// call a call that runs 1
	// eventstore: another process owns the session
}
