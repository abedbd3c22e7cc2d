//go:build linux

package initd

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestNothingOfTheMachineIsKept checks that hosts do not keep the capabilities that would reach beyond a host if the
// kernel checked them outside user namespaces. No component of a node needs them.
func TestNothingOfTheMachineIsKept(t *testing.T) {
	for name, c := range map[string]uintptr{
		"modules": unix.CAP_SYS_MODULE, "ports of the machine": unix.CAP_SYS_RAWIO, "clock": unix.CAP_SYS_TIME,
		"device files": unix.CAP_MKNOD, "audit rules": unix.CAP_AUDIT_CONTROL, "audit records": unix.CAP_AUDIT_READ,
		"MAC overrides": unix.CAP_MAC_OVERRIDE, "MAC policy": unix.CAP_MAC_ADMIN, "kernel log": unix.CAP_SYSLOG,
		"alarms": unix.CAP_WAKE_ALARM, "suspend": unix.CAP_BLOCK_SUSPEND, "perf": unix.CAP_PERFMON, "bpf": unix.CAP_BPF,
		"handles of all files": unix.CAP_DAC_READ_SEARCH, "reboot": unix.CAP_SYS_BOOT, "accounting": unix.CAP_SYS_PACCT,
		"consoles": unix.CAP_SYS_TTY_CONFIG, "immutable files": unix.CAP_LINUX_IMMUTABLE,
		"checkpoints": unix.CAP_CHECKPOINT_RESTORE, "others' IPC": unix.CAP_IPC_OWNER,
	} {
		if why, is := kept[c]; is {
			t.Errorf("%s: capability %d is kept: %s", name, c, why)
		}
	}
	for c, why := range kept {
		if why == "" {
			t.Errorf("capability %d is kept without a reason", c)
		}
	}
}
