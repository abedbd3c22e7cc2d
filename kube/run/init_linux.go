package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// becomeProgram is the second part of a start: it already runs as the container's process and becomes the requested
// program. It returns only on failure. This thread is the process's main thread and becomes the program; exec ends the
// other threads.
func becomeProgram() int {
	for _, fd := range []int{orderFD, resultFD, beginFD} {
		unix.CloseOnExec(fd)
	}
	results := json.NewEncoder(os.NewFile(resultFD, "result"))
	if err := followOrder(results); err != nil {
		results.Encode(result{Error: err.Error()}) // Encode fails only if the reader has ended
	}
	return 1
}

func followOrder(results *json.Encoder) error {
	if err := dieWithSupervisor(); err != nil {
		return err
	}
	var begin [1]byte
	if n, err := unix.Read(beginFD, begin[:]); n != 1 {
		return fmt.Errorf("waiting for the container: %w", errors.Join(errors.New("its supervisor has ended"), err))
	}
	var o order
	if err := json.NewDecoder(os.NewFile(orderFD, "order")).Decode(&o); err != nil {
		return fmt.Errorf("reading what to run: %w", err)
	}
	if o.Pause {
		unix.Close(resultFD) // tells the supervisor that the program runs
		reap()
	}
	if o.OwnGroups {
		if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
			return fmt.Errorf("making a namespace of control groups: %w", err)
		}
	}
	notes, err := becomeUser(&o)
	if err != nil {
		return err
	}
	path, err := findProgram(&o.Process)
	if err != nil {
		return err
	}
	if len(notes) > 0 {
		if err := results.Encode(result{Notes: notes}); err != nil {
			return fmt.Errorf("reporting: %w", err)
		}
	}
	err = syscall.Exec(path, o.Process.Args, o.Process.Env)
	return fmt.Errorf("executing %s: %w", path, err)
}

// dieWithSupervisor makes the kernel kill this process when its supervisor ends. A change of user clears this setting.
func dieWithSupervisor() error {
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("binding the process to its supervisor: %w", err)
	}
	// The supervisor may have ended before that: then nobody reads the results any more.
	fds := []unix.PollFd{{Fd: resultFD}}
	if _, err := unix.Poll(fds, 0); err == nil && fds[0].Revents&unix.POLLERR != 0 {
		return errors.New("the supervisor has ended")
	}
	return nil
}

// reap waits for orphaned processes, forever.
func reap() {
	for {
		if _, err := unix.Wait4(-1, nil, 0, nil); errors.Is(err, unix.ECHILD) {
			waitForChild()
		}
	}
}

// waitForChild returns when this process, the first of its PID namespace, has a child to wait for.
func waitForChild() {
	var set unix.Sigset_t
	set.Val[0] = 1 << (unix.SIGCHLD - 1)
	info := make([]byte, 128) // siginfo_t
	// The runtime may handle SIGCHLD in another thread or not at all, so check periodically.
	limit := unix.Timespec{Sec: reapInterval}
	unix.RawSyscall6(unix.SYS_RT_SIGTIMEDWAIT, uintptr(unsafe.Pointer(&set)), uintptr(unsafe.Pointer(&info[0])),
		uintptr(unsafe.Pointer(&limit)), 8, 0, 0)
}

// reapInterval is how long, in seconds, a dead orphan may remain.
const reapInterval = 5

// becomeUser gives up all rights that the program must not have. notes says what it could not do.
func becomeUser(o *order) (notes []string, err error) {
	p, id := &o.Process, o.Identity
	if p.OOMScoreAdj != nil {
		if err := os.WriteFile("/proc/self/oom_score_adj", []byte(strconv.Itoa(*p.OOMScoreAdj)), 0); err != nil {
			notes = append(notes, fmt.Sprintf("oom_score_adj stays as it is: %v", err))
		}
	}
	unix.Umask(0o022)
	own(id)
	for _, l := range p.Rlimits {
		if err := setRlimit(l); err != nil {
			return nil, err
		}
	}
	dir := p.Dir
	if dir == "" {
		dir = "/"
	}
	if err := unix.Chdir(dir); err != nil {
		return nil, fmt.Errorf("entering the working directory %s: %w", dir, err)
	}
	sets, err := planCapabilities(p.Capabilities)
	if err != nil {
		return nil, err
	}
	if err := sets.dropBounding(); err != nil {
		return nil, err
	}
	if !o.Nested {
		if err := setIDs(id); err != nil {
			return nil, err
		}
	}
	if err := sets.raiseAll(); err != nil {
		return nil, err
	}
	if p.NoNewPrivileges {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return nil, fmt.Errorf("forbidding new privileges: %w", err)
		}
	}
	if err := dieWithSupervisor(); err != nil {
		return nil, err
	}
	if err := filterCalls(p.Seccomp); err != nil {
		return nil, err
	}
	return notes, sets.apply()
}

// own makes the user the owner of the standard streams; otherwise a program could not open /dev/stdout. Streams of
// another owner, such as those of the caller of exec, may refuse this.
func own(id Identity) {
	for fd := range 3 {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil || st.Rdev == unix.Mkdev(1, 3) { // except /dev/null
			continue
		}
		unix.Fchown(fd, int(id.UID), -1)
	}
}

var rlimits = map[string]int{
	"RLIMIT_AS": unix.RLIMIT_AS, "RLIMIT_CORE": unix.RLIMIT_CORE, "RLIMIT_CPU": unix.RLIMIT_CPU,
	"RLIMIT_DATA":  unix.RLIMIT_DATA,
	"RLIMIT_FSIZE": unix.RLIMIT_FSIZE, "RLIMIT_LOCKS": unix.RLIMIT_LOCKS, "RLIMIT_MEMLOCK": unix.RLIMIT_MEMLOCK,
	"RLIMIT_MSGQUEUE": unix.RLIMIT_MSGQUEUE, "RLIMIT_NICE": unix.RLIMIT_NICE, "RLIMIT_NOFILE": unix.RLIMIT_NOFILE,
	"RLIMIT_NPROC": unix.RLIMIT_NPROC, "RLIMIT_RSS": unix.RLIMIT_RSS, "RLIMIT_RTPRIO": unix.RLIMIT_RTPRIO,
	"RLIMIT_RTTIME": unix.RLIMIT_RTTIME, "RLIMIT_SIGPENDING": unix.RLIMIT_SIGPENDING, "RLIMIT_STACK": unix.RLIMIT_STACK,
}

func setRlimit(l Rlimit) error {
	resource, ok := rlimits[l.Name]
	if !ok {
		return fmt.Errorf("there is no limit %s", l.Name)
	}
	if err := syscall.Setrlimit(resource, &syscall.Rlimit{Cur: l.Soft, Max: l.Hard}); err != nil {
		return fmt.Errorf("setting %s to %d, at most %d: %w", l.Name, l.Soft, l.Hard, err)
	}
	return nil
}

// setIDs changes the user and groups of this thread and keeps its permitted capabilities.
func setIDs(id Identity) error {
	if err := unix.Prctl(unix.PR_SET_KEEPCAPS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("keeping capabilities: %w", err)
	}
	groups := make([]uint32, len(id.Groups)+1)
	for i, gid := range id.Groups {
		groups[i] = uint32(gid)
	}
	_, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(id.Groups)), uintptr(unsafe.Pointer(&groups[0])), 0)
	// EPERM is fine if no groups are wanted: a process that may not set groups has none to drop
	if errno != 0 && (errno != unix.EPERM || len(id.Groups) > 0) {
		return fmt.Errorf("setting groups %v: %w", id.Groups, errno)
	}
	gid, uid := uintptr(id.GID), uintptr(id.UID)
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, gid, gid, gid); errno != 0 {
		return fmt.Errorf("becoming group %d: %w", id.GID, errno)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uid, uid, uid); errno != 0 {
		return fmt.Errorf("becoming user %d: %w", id.UID, errno)
	}
	return nil
}

// filterCalls installs a seccomp filter for this thread.
func filterCalls(filter []byte) error {
	const size = 8 // of struct sock_filter
	if len(filter) == 0 {
		return nil
	}
	if len(filter)%size != 0 {
		return errors.New("the seccomp filter is truncated")
	}
	instructions := make([]unix.SockFilter, len(filter)/size)
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&instructions[0])), len(filter)), filter)
	program := unix.SockFprog{Len: uint16(len(instructions)), Filter: &instructions[0]}
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program)))
	runtime.KeepAlive(instructions)
	if errno != 0 {
		return fmt.Errorf("installing the seccomp filter: %w", errno)
	}
	return nil
}

// findProgram looks the program up in the container's own PATH.
func findProgram(p *Process) (string, error) {
	if len(p.Args) == 0 || p.Args[0] == "" {
		return "", errors.New("there is no command: neither the image nor the container names one")
	}
	name := p.Args[0]
	if strings.Contains(name, "/") {
		return name, nil
	}
	path, _ := variable(p.Env, "PATH")
	var denied error
	for _, dir := range filepath.SplitList(path) {
		file := filepath.Join(dir, name)
		st, err := os.Stat(file)
		switch {
		case errors.Is(err, fs.ErrPermission):
			denied = err
		case err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0:
			return file, nil
		}
	}
	if denied != nil {
		return "", fmt.Errorf("finding %q in PATH: %w", name, denied)
	}
	return "", fmt.Errorf("exec: %q: executable file not found in $PATH", name)
}

// variable returns the value of an environment variable.
func variable(env []string, name string) (string, bool) {
	for _, entry := range env {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value, true
		}
	}
	return "", false
}
