package scenario

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// needFiles raises this process's limit of open files so that it can have n connections. The serving process has the same hard limit, and
// raises its soft limit itself, as every Go program does.
func needFiles(n int) error {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return fmt.Errorf("limit of open files: %w", err)
	}
	raised, err := room(l, n)
	if err != nil || raised == l {
		return err
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &raised); err != nil {
		return fmt.Errorf("raise the limit of open files to %d: %w", raised.Cur, err)
	}
	return nil
}

// room is a limit for n connections and the other files of a process.
func room(l unix.Rlimit, n int) (unix.Rlimit, error) {
	const others = 200
	want := uint64(n + others)
	switch {
	case l.Cur >= want:
	case l.Max >= want:
		l.Cur = l.Max
	default:
		return l, fmt.Errorf("%d connections need a limit of %d open files, and %d is the most that is allowed here (ulimit -Hn)", n, want, l.Max)
	}
	return l, nil
}
