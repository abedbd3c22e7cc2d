package run

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// capabilityNames lists the capabilities by number.
var capabilityNames = []string{
	"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_DAC_READ_SEARCH", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_SETGID",
	"CAP_SETUID",
	"CAP_SETPCAP", "CAP_LINUX_IMMUTABLE", "CAP_NET_BIND_SERVICE", "CAP_NET_BROADCAST", "CAP_NET_ADMIN", "CAP_NET_RAW",
	"CAP_IPC_LOCK",
	"CAP_IPC_OWNER", "CAP_SYS_MODULE", "CAP_SYS_RAWIO", "CAP_SYS_CHROOT", "CAP_SYS_PTRACE", "CAP_SYS_PACCT",
	"CAP_SYS_ADMIN",
	"CAP_SYS_BOOT", "CAP_SYS_NICE", "CAP_SYS_RESOURCE", "CAP_SYS_TIME", "CAP_SYS_TTY_CONFIG", "CAP_MKNOD", "CAP_LEASE",
	"CAP_AUDIT_WRITE", "CAP_AUDIT_CONTROL", "CAP_SETFCAP", "CAP_MAC_OVERRIDE", "CAP_MAC_ADMIN", "CAP_SYSLOG",
	"CAP_WAKE_ALARM",
	"CAP_BLOCK_SUSPEND", "CAP_AUDIT_READ", "CAP_PERFMON", "CAP_BPF", "CAP_CHECKPOINT_RESTORE",
}

// AllCapabilities returns the names of all capabilities.
func AllCapabilities() []string { return slices.Clone(capabilityNames) }

// allCapabilities returns the numbers of the capabilities that this process has.
func allCapabilities() []uintptr {
	have, err := permitted()
	if err != nil {
		return nil
	}
	var all []uintptr
	for n := range capabilityNames {
		if have&(1<<n) != 0 {
			all = append(all, uintptr(n))
		}
	}
	return all
}

// capabilitySets are the capabilities that a process keeps, as bit masks.
type capabilitySets struct{ have, bounding, ambient uint64 }

// planCapabilities translates names. A process can't keep a capability that it does not have.
func planCapabilities(c Capabilities) (sets capabilitySets, err error) {
	if sets.have, err = permitted(); err != nil {
		return sets, err
	}
	if sets.bounding, err = capabilityBits(c.Bounding); err != nil {
		return sets, err
	}
	if sets.ambient, err = capabilityBits(c.Ambient); err != nil {
		return sets, err
	}
	sets.bounding &= sets.have
	sets.ambient &= sets.bounding
	return sets, nil
}

func capabilityBits(names []string) (uint64, error) {
	var bits uint64
	for _, name := range names {
		n := slices.Index(capabilityNames, name)
		if n < 0 {
			return 0, fmt.Errorf("there is no capability %s", name)
		}
		bits |= 1 << n
	}
	return bits, nil
}

// dropBounding permanently removes from the bounding set all capabilities that s does not keep there.
func (s capabilitySets) dropBounding() error {
	for n := range capabilityNames {
		if s.bounding&(1<<n) != 0 {
			continue
		}
		if has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(n), 0, 0, 0); err != nil || has == 0 {
			continue // an older kernel lacks it
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(n), 0, 0, 0); err != nil {
			return fmt.Errorf("dropping capability %s: %w", capabilityNames[n], err)
		}
	}
	return nil
}

// raiseAll makes all permitted capabilities effective again, after a change of user cleared them.
func (s capabilitySets) raiseAll() error { return setCapabilities(s.have, s.have, 0) }

// apply reduces the capabilities to those to keep.
func (s capabilitySets) apply() error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("clearing ambient capabilities: %w", err)
	}
	if err := setCapabilities(s.bounding, s.bounding, s.ambient); err != nil {
		return err
	}
	for n := range capabilityNames {
		if s.ambient&(1<<n) == 0 {
			continue
		}
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, uintptr(n), 0, 0); err != nil {
			return fmt.Errorf("raising ambient capability %s: %w", capabilityNames[n], err)
		}
	}
	return nil
}

// permitted returns the permitted capabilities of this thread.
func permitted() (uint64, error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return 0, fmt.Errorf("reading capabilities: %w", err)
	}
	return uint64(data[1].Permitted)<<32 | uint64(data[0].Permitted), nil
}

func setCapabilities(effective, permitted, inheritable uint64) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	for i := range data {
		shift := 32 * i
		data[i] = unix.CapUserData{
			Effective: uint32(effective >> shift), Permitted: uint32(permitted >> shift),
			Inheritable: uint32(inheritable >> shift),
		}
	}
	if err := unix.Capset(&header, &data[0]); err != nil {
		return fmt.Errorf("setting capabilities: %w", err)
	}
	return nil
}
