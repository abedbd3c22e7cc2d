// Package seccomp builds the system call filters of containers.
//
// The RuntimeDefault profile is the one that Moby publishes (module github.com/moby/profiles/seccomp); containerd and
// others ship the same profile. elastic/go-seccomp-bpf assembles it. The filter is a BPF program for this machine's own
// architecture. System calls of another architecture get the profile's default, EPERM.
package seccomp

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	bpf "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	profiles "github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	rawbpf "golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// RuntimeDefault returns the filter of the default profile for a container with these capabilities, named like
// CAP_CHOWN. The profile allows some system calls only with the capability that they need.
func RuntimeDefault(capabilities []string) ([]byte, error) {
	profile, err := profiles.GetDefaultProfile(withCapabilities(capabilities))
	if err != nil {
		return nil, fmt.Errorf("reading the default seccomp profile: %w", err)
	}
	return assemble(profile)
}

// Profile returns the filter of a JSON profile, as a node's administrator writes it.
func Profile(text []byte, capabilities []string) ([]byte, error) {
	if !json.Valid(text) {
		return nil, errors.New("the seccomp profile is not JSON")
	}
	profile, err := profiles.LoadProfile(string(text), withCapabilities(capabilities))
	if err != nil {
		return nil, fmt.Errorf("reading the seccomp profile: %w", err)
	}
	if profile == nil {
		return nil, errors.New("the seccomp profile is empty")
	}
	return assemble(profile)
}

func withCapabilities(capabilities []string) *specs.Spec {
	return &specs.Spec{Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{Bounding: capabilities}}}
}

// assemble translates a profile whose conditions on capabilities, kernel and architecture are already resolved.
func assemble(profile *specs.LinuxSeccomp) ([]byte, error) {
	info, err := arch.GetInfo("")
	if err != nil {
		return nil, fmt.Errorf("finding the system calls of this machine: %w", err)
	}
	if errno := profile.DefaultErrnoRet; profile.DefaultAction == specs.ActErrno && errno != nil &&
		*errno != uint(unix.EPERM) {
		return nil, fmt.Errorf("a seccomp profile whose default error is %d is not supported: use 1 (EPERM)", *errno)
	}
	otherwise, err := action(profile.DefaultAction, nil)
	if err != nil {
		return nil, err
	}
	if otherwise == bpf.ActionErrno {
		otherwise |= bpf.Action(unix.EPERM)
	}
	var program []rawbpf.Instruction
	for _, call := range profile.Syscalls {
		groups, err := rules(info, call)
		if err != nil {
			return nil, err
		}
		for _, group := range groups {
			part, err := assembleGroup(group)
			if err != nil {
				return nil, err
			}
			program = append(program, part...)
		}
	}
	raw, err := rawbpf.Assemble(append(program, rawbpf.RetConstant{Val: uint32(otherwise)}))
	if err != nil {
		return nil, fmt.Errorf("assembling the seccomp filter: %w", err)
	}
	if len(raw) > unix.BPF_MAXINSNS {
		return nil, fmt.Errorf("the seccomp filter has %d instructions, but the kernel allows only %d", len(raw),
			unix.BPF_MAXINSNS)
	}
	return encode(raw), nil
}

// goOn marks, in a group's program, the result for system calls that the group does not cover. A profile can't use
// ActionTrace, because the function action rejects it.
const goOn = bpf.ActionTrace

// assembleGroup assembles the program of one group of rules. For calls that the group does not cover, execution
// continues after the program's end.
//
// The library can assemble many groups at once. But after a group whose conditions don't hold, the library leaves an
// argument where the next group expects the system call number (v1.6.0). So each group becomes a program that loads the
// number itself.
func assembleGroup(group bpf.SyscallGroup) ([]rawbpf.Instruction, error) {
	policy := bpf.Policy{DefaultAction: goOn, Syscalls: []bpf.SyscallGroup{group}}
	part, err := policy.Assemble()
	if err != nil {
		return nil, fmt.Errorf("assembling the seccomp filter: %w", err)
	}
	for i, instruction := range part {
		if instruction == (rawbpf.RetConstant{Val: uint32(goOn)}) {
			part[i] = rawbpf.Jump{Skip: uint32(len(part) - 1 - i)}
		}
	}
	return part, nil
}

// rules translates one rule of a profile into groups. A rule without conditions becomes one group for all its system
// calls; a rule with conditions becomes one group for each system call. System calls that this architecture lacks are
// skipped, as in other runtimes.
func rules(info *arch.Info, call specs.LinuxSyscall) (groups []bpf.SyscallGroup, err error) {
	answer, err := action(call.Action, call.ErrnoRet)
	if err != nil {
		return nil, err
	}
	conditions, err := conditions(call.Args)
	if err != nil {
		return nil, err
	}
	plain := bpf.SyscallGroup{Action: answer}
	for _, name := range call.Names {
		if _, known := info.SyscallNames[name]; !known {
			continue
		}
		if len(conditions) > 0 {
			with := []bpf.NameWithConditions{{Name: name, Conditions: conditions}}
			groups = append(groups, bpf.SyscallGroup{Action: answer, NamesWithCondtions: with})
		} else if !slices.Contains(plain.Names, name) {
			plain.Names = append(plain.Names, name)
		}
	}
	if len(plain.Names) > 0 {
		groups = append(groups, plain)
	}
	return groups, nil
}

// action translates an action of a profile. errno is the error for ActErrno; nil means EPERM.
func action(name specs.LinuxSeccompAction, errno *uint) (bpf.Action, error) {
	switch name {
	case specs.ActAllow:
		return bpf.ActionAllow, nil
	case specs.ActErrno:
		if errno != nil {
			return bpf.ActionErrno | bpf.Action(*errno&unix.SECCOMP_RET_DATA), nil
		}
		return bpf.ActionErrno, nil // the library adds EPERM
	case specs.ActKill, specs.ActKillThread:
		return bpf.ActionKillThread, nil
	case specs.ActKillProcess:
		return bpf.ActionKillProcess, nil
	case specs.ActTrap:
		return bpf.ActionTrap, nil
	case specs.ActLog:
		return bpf.ActionLog, nil
	case specs.ActTrace, specs.ActNotify:
	}
	return 0, fmt.Errorf("the seccomp action %s is not supported", name)
}

// operations maps the operators of profiles to those of the library, except masked comparisons, which the
// function conditions translates.
var operations = map[specs.LinuxSeccompOperator]bpf.Operation{
	specs.OpEqualTo: bpf.Equal, specs.OpNotEqual: bpf.NotEqual,
	specs.OpGreaterThan: bpf.GreaterThan, specs.OpGreaterEqual: bpf.GreaterOrEqual,
	specs.OpLessThan: bpf.LessThan, specs.OpLessEqual: bpf.LessOrEqual,
}

func conditions(args []specs.LinuxSeccompArg) (bpf.ArgumentConditions, error) {
	var list bpf.ArgumentConditions
	for _, arg := range args {
		condition := bpf.Condition{Argument: uint32(arg.Index), Operation: operations[arg.Op], Value: arg.Value}
		if arg.Op == specs.OpMaskedEqual && arg.ValueTwo == 0 {
			condition.Operation = bpf.BitsNotSet // holds if no bit of the mask is set
		}
		if condition.Operation == "" {
			return nil, fmt.Errorf("the seccomp condition %s is not supported", arg.Op)
		}
		list = append(list, condition)
	}
	return list, nil
}

// encode returns the program in the kernel's format: an array of struct sock_filter.
func encode(raw []rawbpf.RawInstruction) []byte {
	out := make([]byte, 0, 8*len(raw))
	for _, i := range raw {
		out = binary.NativeEndian.AppendUint16(out, i.Op)
		out = append(out, i.Jt, i.Jf)
		out = binary.NativeEndian.AppendUint32(out, i.K)
	}
	return out
}
