//go:build linux

package seccomp

import (
	"encoding/binary"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Results of a filter.
const (
	allowed = unix.SECCOMP_RET_ALLOW
	refused = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	unknown = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
)

// machines maps architectures to the kernel's numbers.
var machines = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// ask runs a filter for a system call. The virtual machine of package bpf reads its input as big-endian, so ask encodes
// struct seccomp_data in this way, although the kernel uses the machine's own byte order.
func ask(t *testing.T, filter []byte, call uint32, args ...uint64) uint32 {
	t.Helper()
	var program []bpf.Instruction
	for at := 0; at < len(filter); at += 8 {
		raw := bpf.RawInstruction{
			Op: binary.NativeEndian.Uint16(filter[at:]), Jt: filter[at+2], Jf: filter[at+3],
			K: binary.NativeEndian.Uint32(filter[at+4:]),
		}
		program = append(program, raw.Disassemble())
	}
	vm, err := bpf.NewVM(program)
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, 64)
	binary.BigEndian.PutUint32(data, call)
	binary.BigEndian.PutUint32(data[4:], machines[runtime.GOARCH])
	for i, arg := range args {
		binary.BigEndian.PutUint32(data[16+8*i:], uint32(arg))
		binary.BigEndian.PutUint32(data[20+8*i:], uint32(arg>>32))
	}
	answer, err := vm.Run(data)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(answer)
}

func TestRuntimeDefault(t *testing.T) {
	plain, err := RuntimeDefault([]string{"CAP_CHOWN"})
	if err != nil {
		t.Fatal(err)
	}
	admin, err := RuntimeDefault([]string{"CAP_SYS_ADMIN"})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d instructions", len(plain)/8)
	cases := map[string]struct {
		call        uint32
		args        []uint64
		plain, root uint32
	}{
		"reading":                     {unix.SYS_READ, nil, allowed, allowed},
		"executing":                   {unix.SYS_EXECVE, nil, allowed, allowed},
		"reading kernel keys":         {unix.SYS_KEYCTL, nil, refused, refused},
		"mounting":                    {unix.SYS_MOUNT, nil, refused, allowed},
		"new namespaces":              {unix.SYS_UNSHARE, []uint64{unix.CLONE_NEWUSER}, refused, allowed},
		"a new thread":                {unix.SYS_CLONE, []uint64{unix.CLONE_THREAD | unix.CLONE_VM}, allowed, allowed},
		"a process in new namespaces": {unix.SYS_CLONE, []uint64{unix.CLONE_NEWUSER}, refused, allowed},
		"clone3, which libraries then replace with clone": {unix.SYS_CLONE3, nil, unknown, allowed},
		"a socket for IPv4":                              {unix.SYS_SOCKET, []uint64{unix.AF_INET}, allowed, allowed},
		"a socket to virtual machines":                   {unix.SYS_SOCKET, []uint64{unix.AF_VSOCK}, refused, refused},
		"an allowed personality":                         {unix.SYS_PERSONALITY, []uint64{0xffffffff}, allowed, allowed},
		"a personality that equals a system call number": {unix.SYS_PERSONALITY, []uint64{unix.SYS_SOCKET}, refused, refused},
		"a forbidden personality":                        {unix.SYS_PERSONALITY, []uint64{0x0400000}, refused, refused},
		"a system call that does not exist yet":          {4000, nil, refused, refused},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := ask(t, plain, c.call, c.args...); got != c.plain {
				t.Errorf("without capabilities: %#x, want %#x", got, c.plain)
			}
			if got := ask(t, admin, c.call, c.args...); got != c.root {
				t.Errorf("with CAP_SYS_ADMIN: %#x, want %#x", got, c.root)
			}
		})
	}
}

func TestProfile(t *testing.T) {
	filter, err := Profile([]byte(`{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
		{"names": ["fchmod", "no_such_call"], "action": "SCMP_ACT_ERRNO", "errnoRet": 13},
		{"names": ["getpid"], "action": "SCMP_ACT_KILL_PROCESS"}]}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	for call, want := range map[uint32]uint32{
		unix.SYS_FCHMOD: unix.SECCOMP_RET_ERRNO | uint32(unix.EACCES), unix.SYS_GETPID: unix.SECCOMP_RET_KILL_PROCESS,
		unix.SYS_READ: allowed,
	} {
		if got := ask(t, filter, call); got != want {
			t.Errorf("system call %d: %#x, want %#x", call, got, want)
		}
	}
	for text, want := range map[string]string{
		`{`:    "not JSON",
		`null`: "seccomp",
		`{"defaultAction": "SCMP_ACT_NOTIFY", "syscalls": []}`: "not supported",
		`{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["read"], "action": "SCMP_ACT_ERRNO",
			"args": [{"index": 0, "value": 5, "valueTwo": 1, "op": "SCMP_CMP_MASKED_EQ"}]}]}`: "the seccomp condition",
	} {
		if _, err := Profile([]byte(text), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("profile %s: %v, want %q", text, err, want)
		}
	}
}
