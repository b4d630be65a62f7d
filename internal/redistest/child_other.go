//go:build unix && !linux

package redistest

import "syscall"

// endsWithParent is for Linux.
func endsWithParent() *syscall.SysProcAttr { return nil }
