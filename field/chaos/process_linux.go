package main

import "syscall"

// endsWithParent lets the kernel kill the child when the thread that starts it ends, so a child that is stopped does not stay either.
func endsWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
