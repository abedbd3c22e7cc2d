//go:build !linux

package backup

import "syscall"

func endWithParent() *syscall.SysProcAttr { return nil }
