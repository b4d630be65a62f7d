package eventstore_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/rejoin-mcp/rejoin/eventstore"
)

// A store for many small sessions, given to a server as its Config.Store.
func ExampleNewMemory() {
	store := eventstore.NewMemory(eventstore.MemoryConfig{
		SessionBytes: 1 << 20, // of one session
		TotalBytes:   1 << 30, // of all
		BacklogBytes: 64 << 10,
	})
	bytes, evicted := store.Usage()
	fmt.Println(bytes, evicted)
	// Output: 0 0
}

// What a client has not fetched of a running call is never lost. When there is no room, the sender gets ErrFull. A response is always kept.
func ExampleMemory_full() {
	store := eventstore.NewMemory(eventstore.MemoryConfig{SessionBytes: 64 << 10})
	log := store.Log(eventstore.Key{Session: "s", Stream: "call"})
	ctx := context.Background()
	fmt.Println(log.Append(ctx, 1, [][]byte{make([]byte, 40<<10)}, false))
	fmt.Println(errors.Is(log.Append(ctx, 2, [][]byte{make([]byte, 40<<10)}, false), eventstore.ErrFull))
	fmt.Println(log.Append(ctx, 2, [][]byte{make([]byte, 40<<10)}, true)) // seals: it is the response
	// Output:
	// <nil>
	// true
	// <nil>
}

// Any number of readers can read a log after a position, now or later.
func ExampleLog() {
	store := eventstore.NewMemory(eventstore.MemoryConfig{})
	log := store.Log(eventstore.Key{Session: "s", Stream: "call"})
	ctx := context.Background()
	for seq, text := range []string{"progress", "more", "response"} {
		if err := log.Append(ctx, uint64(seq)+1, [][]byte{[]byte(text)}, text == "response"); err != nil {
			fmt.Println(err)
		}
	}
	buf := make([]eventstore.Event, 8)
	n, state, err := log.Read(ctx, 1, buf, 0) // the client has the first
	for _, e := range buf[:n] {
		fmt.Println(e.Seq, string(e.Data))
	}
	fmt.Println(state.First, state.Last, state.Sealed, err)
	// Output:
	// 2 more
	// 3 response
	// 1 3 true <nil>
}
