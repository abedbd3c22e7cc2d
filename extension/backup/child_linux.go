package backup

import "syscall"

// endWithParent makes a child end with the thread that started it, so that one that was killed leaves nothing behind.
func endWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
