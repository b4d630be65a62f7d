package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// pinned calls start, which starts a process, so that the process runs on the given CPU only. The number is taken modulo the number of
// allowed CPUs.
func pinned(cpu int, start func() error) error {
	if cpu == AnyCPU {
		return start()
	}
	// A process inherits the CPUs of the thread that starts it, so it never runs on another one.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return fmt.Errorf("the allowed CPUs: %w", err)
	}
	cpu %= all.Count()
	for i := 0; ; i++ {
		if !all.IsSet(i) {
			continue
		}
		if cpu == 0 {
			one.Set(i)
			break
		}
		cpu--
	}
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return fmt.Errorf("pinning to a CPU: %w", err)
	}
	return errors.Join(start(), unix.SchedSetaffinity(0, &all))
}

// sampleSelf samples this process.
func sampleSelf(gc bool) (Sample, error) {
	if gc {
		runtime.GC() // FreeOSMemory collects once more: the second collection frees what pools and finalizers held
		debug.FreeOSMemory()
	}
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return Sample{}, err
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	s := Sample{
		CPU:        time.Duration(usage.Utime.Nano() + usage.Stime.Nano()),
		Mallocs:    m.Mallocs,
		Bytes:      m.TotalAlloc,
		Heap:       int64(m.HeapAlloc),
		Objects:    int64(m.HeapObjects),
		Stack:      int64(m.StackInuse),
		Goroutines: runtime.NumGoroutine(),
	}
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return s, err
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(statm), &size, &resident); err != nil {
		return s, fmt.Errorf("statm: %w", err)
	}
	s.RSS = resident * int64(os.Getpagesize())
	io, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return s, err
	}
	if s.Writes, err = field(io, "syscw: "); err != nil {
		return s, err
	}
	s.Sent, err = field(io, "wchar: ")
	return s, err
}

func field(text []byte, name string) (int64, error) {
	_, after, ok := bytes.Cut(text, []byte(name))
	if !ok {
		return 0, fmt.Errorf("no %q", name)
	}
	value, _, _ := bytes.Cut(after, []byte("\n"))
	return strconv.ParseInt(string(value), 10, 64)
}
