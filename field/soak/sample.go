package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"sync"
	"syscall"
	"time"
)

// sample is what a process has used since its start, and what it holds.
type sample struct {
	CPU        time.Duration `json:"cpu"`
	Heap       int64         `json:"heap"`
	RSS        int64         `json:"rss"`
	Goroutines int           `json:"goroutines"`
}

// sampleSelf samples this process. With gc it first collects garbage twice: the second collection frees what pools and finalizers held.
func sampleSelf(gc bool) (sample, error) {
	if gc {
		runtime.GC()
		runtime.GC()
	}
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return sample{}, err
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return sample{
		CPU:  time.Duration(usage.Utime.Nano() + usage.Stime.Nano()),
		Heap: int64(m.HeapAlloc), //nolint:gosec // less than what a machine has
		RSS:  resident(), Goroutines: runtime.NumGoroutine(),
	}, nil
}

// growGoroutines starts n goroutines at once and ends them. The runtime keeps its record of each for later goroutines.
func growGoroutines(n int) {
	var begun, ended sync.WaitGroup
	begun.Add(n)
	for range n {
		ended.Go(func() { begun.Done(); begun.Wait() })
	}
	ended.Wait()
}

// profileRate is the rate of the heap profile in bytes. It is low, since a heap that has grown has grown by little.
const profileRate = 16 << 10

// profile writes a heap profile.
func profile(file string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	runtime.GC()
	return errors.Join(pprof.WriteHeapProfile(f), f.Close())
}

// resident is the resident memory of this process in bytes; 0 if the system does not tell.
func resident() int64 {
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(statm), &size, &pages); err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// needFiles raises the limit of open files to n, or returns an error.
func needFiles(n uint64) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	if limit.Cur >= n {
		return nil
	}
	if limit.Max < n {
		return fmt.Errorf("%d open files are needed, and the limit is %d (ulimit -Hn): fewer -clients, or a higher limit", n, limit.Max)
	}
	limit.Cur = n
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("raising the limit of open files to %d: %w", n, err)
	}
	return nil
}
