package kit

import (
	"crypto/sha256"
	"encoding/base64"
	"runtime"
)

// KeyOf is the name of a session or a task in the engine of a cluster that is called test.
func KeyOf(id string) string {
	sum := sha256.Sum256([]byte(id))
	return "test/" + base64.RawURLEncoding.EncodeToString(sum[:20])
}

// HeapObjects is how many objects there are.
func HeapObjects() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapObjects
}
