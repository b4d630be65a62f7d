package weakmap

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

type thing struct{ name string }

func TestANameIsFreeOnceItsObjectWasCollected(t *testing.T) {
	var m Map[thing]
	m.Add("a", &thing{"first"})
	runtime.GC()
	runtime.GC()
	require.Nil(t, m.Find("a"))
	second := &thing{"second"}
	m.Add("a", second)
	require.Same(t, second, m.Find("a"))
	require.Len(t, m.entries, 1)
	runtime.KeepAlive(second)
}

func TestCollectedObjectsDoNotPileUp(t *testing.T) {
	var m Map[thing]
	kept := &thing{"kept"}
	m.Add("kept", kept)
	for i := range 20_000 {
		m.Add(fmt.Sprint(i), &thing{"garbage"})
		if i%500 == 0 {
			runtime.GC()
			runtime.GC()
		}
		require.LessOrEqual(t, m.Len(), m.limit)
	}
	require.Less(t, m.Len(), 3000)
	require.Same(t, kept, m.Find("kept"))
	seen := 0
	m.All(func(name string, p *thing) {
		require.Same(t, p, m.Find(name))
		seen++
	})
	require.Positive(t, seen)
	require.False(t, m.Remove("kept", &thing{"kept"}), "another object")
	require.True(t, m.Remove("kept", kept))
	require.Nil(t, m.Find("kept"))
	runtime.KeepAlive(kept)
}
