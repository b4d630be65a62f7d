package redistest

import "syscall"

// endsWithParent lets the kernel kill the child when the thread that starts it ends.
func endsWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
