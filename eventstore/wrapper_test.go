package eventstore_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/eventstore"
)

// A wrapper of each kind keeps those abilities of the inner store that the documentation says it keeps.
func TestWhatAWrapperKeeps(t *testing.T) {
	m := eventstore.NewMemory(eventstore.MemoryConfig{})
	require.NoError(t, m.Log(eventstore.Key{Session: "s", Stream: "a"}).Append(context.Background(), 1, [][]byte{make([]byte, 100)}, false))
	bytes, _ := m.Usage()
	require.Positive(t, bytes)
	for name, test := range map[string]struct {
		store   eventstore.Store
		counts  bool
		instant bool
	}{
		"none":                        {m, true, true},
		"embeds Memory":               {embedsMemory{m}, true, true},
		"embeds Memory and may wait":  {waits{embedsMemory{m}}, true, false},
		"embeds Store":                {embedsStore{m}, false, false},
		"embeds Store and unwraps":    {unwraps{m}, true, false},
		"around one that unwraps":     {unwraps{unwraps{m}}, true, false},
		"around one that does not":    {unwraps{embedsStore{m}}, false, false},
		"around nothing":              {unwraps{}, false, false},
		"around one that is Instant":  {unwraps{embedsMemory{m}}, true, false},
		"unwraps, and says it itself": {instant{unwraps{m}}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			a := eventstore.AccountantOf(test.store)
			require.Equal(t, test.counts, a != nil)
			if a != nil {
				got, _ := a.Usage()
				require.Equal(t, bytes, got)
			}
			i, ok := test.store.(eventstore.Instant)
			require.Equal(t, test.instant, ok && i.Instant())
		})
	}
	require.Nil(t, eventstore.AccountantOf(nil))
}

type embedsMemory struct{ *eventstore.Memory }

type waits struct{ embedsMemory }

func (waits) Instant() bool { return false }

type embedsStore struct{ eventstore.Store }

type unwraps struct{ eventstore.Store }

func (w unwraps) Unwrap() eventstore.Store { return w.Store }

type instant struct{ unwraps }

func (instant) Instant() bool { return true }
