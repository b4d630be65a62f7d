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

// sample is what a process has used, and holds.
type sample struct {
	CPU        time.Duration `json:"cpu"`
	Heap       int64         `json:"heap"`
	RSS        int64         `json:"rss"`
	Goroutines int           `json:"goroutines"`
}

// take samples this process; with gc, after collecting garbage twice: what pools and finalizers hold on to goes with the second.
func take(gc bool) (sample, error) {
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

// atOnce has so many goroutines at once, and none of them afterwards. The runtime keeps its record of each for the next one.
func atOnce(n int) {
	var begun, ended sync.WaitGroup
	begun.Add(n)
	for range n {
		ended.Go(func() { begun.Done(); begun.Wait() })
	}
	ended.Wait()
}

// profileRate is one record of the heap profile for so many bytes: what is left of a heap in the end is small.
const profileRate = 16 << 10

// profile writes down what holds the heap.
func profile(file string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	runtime.GC()
	return errors.Join(pprof.WriteHeapProfile(f), f.Close())
}

// resident is the memory that the process has of the machine; 0 where the system does not say.
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

// needFiles makes sure that this process may have n files open.
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
