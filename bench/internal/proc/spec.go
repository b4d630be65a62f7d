// Package proc runs servers and load as processes of their own. Each process is this program, started again.
package proc

import "time"

// AnyCPU lets a process use all CPUs.
const AnyCPU = -1

// Spec describes a serving process.
type Spec struct {
	Subject    string
	StoreBytes int64         // 0: the library's default
	Redis      string        // the address of the engine, for subjects that use one
	Lease      time.Duration // of a process in its cluster; 0: the default
	CPU        int           // the only CPU it uses, with GOMAXPROCS=1, counted from 0 among the allowed ones; or AnyCPU
}

// Sample is what a serving process has used since its start, and what it holds. The writes of the samples themselves are not counted.
type Sample struct {
	CPU        time.Duration `json:"cpu"` // user and system
	Mallocs    uint64        `json:"mallocs"`
	Bytes      uint64        `json:"bytes"` // allocated
	Heap       int64         `json:"heap"`  // bytes of objects, only live ones after a collection
	Objects    int64         `json:"objects"`
	Stack      int64         `json:"stack"`
	RSS        int64         `json:"rss"`
	Goroutines int           `json:"goroutines"`
	Writes     int64         `json:"writes"` // system calls like write(2)
	Sent       int64         `json:"sent"`   // bytes written
	Trips      int64         `json:"trips"`  // calls of the engine of its cluster, without those for the lease
	Appends    int64         `json:"appends"`
	Accepted   int64         `json:"accepted"` // connections that the owner of its sessions has got, if it forwards
}
