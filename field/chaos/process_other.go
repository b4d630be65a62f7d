//go:build unix && !linux

package main

import "syscall"

// endsWithParent is for Linux.
func endsWithParent() *syscall.SysProcAttr { return nil }
