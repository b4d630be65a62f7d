// Package proc runs the servers and the load in processes of their own: each is this program, started again.
package proc

import "time"

// AnyCPU leaves a process on all CPUs.
const AnyCPU = -1

// Spec says what a serving process is to be.
type Spec struct {
	Subject    string
	StoreBytes int64 // 0: the library's default
	CPU        int   // the one CPU it runs on, counted from 0 among those that are allowed, with GOMAXPROCS=1; or AnyCPU
}

// Sample is what a serving process has used so far, and what it holds. What its own sampling costs is not in it.
type Sample struct {
	CPU        time.Duration `json:"cpu"` // user and system
	Mallocs    uint64        `json:"mallocs"`
	Bytes      uint64        `json:"bytes"` // allocated
	Heap       int64         `json:"heap"`  // bytes of live objects, if collected
	Objects    int64         `json:"objects"`
	Stack      int64         `json:"stack"`
	RSS        int64         `json:"rss"`
	Goroutines int           `json:"goroutines"`
	Writes     int64         `json:"writes"` // calls of write(2) and its like
	Sent       int64         `json:"sent"`   // bytes written
}
