//go:build !linux

package proc

import "errors"

var errLinux = errors.New("bench measures on Linux only: it pins processes to CPUs and reads /proc")

func pinned(cpu int, start func() error) error {
	if cpu == AnyCPU {
		return start()
	}
	return errLinux
}

func sampleSelf(bool) (Sample, error) { return Sample{}, errLinux }
