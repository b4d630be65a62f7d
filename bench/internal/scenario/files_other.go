//go:build !linux

package scenario

// needFiles hopes for the best: too low a limit shows when a connection cannot be opened.
func needFiles(int) error { return nil }
