package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

// TestOwnersTakeASessionFromEachOther lets four processes adopt one session from each other, as fast as they can, and append to its log
// while they own it. The log must hold what was acknowledged, and nothing else but events of owners that have not heard of their end.
func TestOwnersTakeASessionFromEachOther(t *testing.T) {
	const processes, adoptions, each = 4, 300, 20
	ctx := context.Background()
	m := cluster.NewMemory(eventstore.MemoryConfig{})
	require.NoError(t, m.Put(ctx, &cluster.Record{Session: "s", Fence: eventstore.Fence{Incarnation: "0", Epoch: 1}}, time.Hour))
	var mu sync.Mutex
	acked := map[uint64]string{}
	var wg sync.WaitGroup
	for p := range processes {
		wg.Go(func() {
			to := cluster.Process{Incarnation: fmt.Sprint(p), Self: fmt.Sprint(p)}
			for range adoptions {
				found, err := m.Find(ctx, "s", to)
				if err != nil {
					t.Errorf("find: %v", err)
					return
				}
				r, streams, err := m.Adopt(ctx, "s", found.Record.Fence, cluster.Member{Process: to}, time.Hour)
				if errors.Is(err, eventstore.ErrFenced) {
					continue
				}
				if err != nil {
					t.Errorf("adopt: %v", err)
					return
				}
				l := m.Log(eventstore.Key{Session: "s", Stream: "a", Fence: r.Fence})
				var last uint64
				if len(streams) > 0 {
					last = streams[0].Last
				}
				for seq := last + 1; seq <= last+each; seq++ {
					text := fmt.Sprintf("%d by %v", seq, r.Fence)
					err := l.Append(ctx, seq, [][]byte{[]byte(text)}, false)
					if errors.Is(err, eventstore.ErrFenced) {
						break
					}
					if err != nil {
						t.Errorf("append event %d as %v: %v", seq, r.Fence, err)
						return
					}
					mu.Lock()
					if other, twice := acked[seq]; twice {
						t.Errorf("event %d was acknowledged as %q and as %q", seq, other, text)
					}
					acked[seq] = text
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	buf := make([]eventstore.Event, len(acked)+1)
	n, st, err := m.Log(eventstore.Key{Session: "s", Stream: "a"}).Read(ctx, 0, buf, 0)
	require.NoError(t, err)
	require.Equal(t, eventstore.State{First: 1, Last: uint64(len(acked))}, st, "all that is there was acknowledged")
	for _, ev := range buf[:n] {
		require.Equal(t, acked[ev.Seq], string(ev.Data))
	}
	t.Logf("%d events", n)
}
