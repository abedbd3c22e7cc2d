package backup

import "syscall"

// endWithParent makes the kernel kill a child when the thread that started it exits, so that a killed parent leaves no
// child behind.
func endWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
