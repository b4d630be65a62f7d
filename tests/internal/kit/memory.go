package kit

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// RequireFlat requires that the heap has grown by no more than so many bytes.
func RequireFlat(t *testing.T, before uint64, most int64, what string) {
	t.Helper()
	grown := int64(HeapAlloc()) - int64(before)
	t.Logf("%s: %d KiB more", what, grown>>10)
	require.Less(t, grown, most, what)
}

// InUse is what the process holds for objects and stacks.
func InUse() uint64 {
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
	runtime.GC() // what the pools held goes with the second
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
