package kit

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// RequireFlat requires that the heap has grown by fewer than most bytes since HeapAlloc returned before.
func RequireFlat(t *testing.T, before uint64, most int64, what string) {
	t.Helper()
	grown := int64(HeapAlloc()) - int64(before)
	t.Logf("%s: %d KiB more", what, grown>>10)
	require.Less(t, grown, most, what)
}

// MemoryInUse is how many bytes the process uses for the heap and for stacks after a collection.
func MemoryInUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// HeapAlloc is how many bytes of the heap are in use after a collection.
func HeapAlloc() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // the second collection frees what sync.Pools held
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
