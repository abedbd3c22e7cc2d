//go:build linux

package outside

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// AwaitCommand makes capstan-dock wait until its ids are mapped, and then become another of its commands.
const AwaitCommand = "await-ids"

// awaitFD is the file descriptor on which AwaitCommand waits for a byte.
const awaitFD = 5

// subordinates is the number of subordinate ids that hosts need: with the user's own id they have 65,536.
const subordinates = 65535

// mapLimit bounds the run of each program that maps ids.
const mapLimit = 10 * time.Second

// subordinateIDs are the ids that the machine's administrator lets a user map in addition to the user's own id.
type subordinateIDs struct{ users, groups int }

// findSubordinate returns the ids in /etc/subuid and /etc/subgid that this user may map. The error says what is
// missing.
func findSubordinate() (subordinateIDs, error) {
	for _, program := range []string{"newuidmap", "newgidmap"} {
		if _, err := exec.LookPath(program); err != nil {
			return subordinateIDs{}, fmt.Errorf("%s is not installed (Debian's package uidmap has it)", program)
		}
	}
	names := []string{strconv.Itoa(os.Geteuid())}
	if u, err := user.LookupId(names[0]); err == nil {
		names = append(names, u.Username)
	}
	var ids subordinateIDs
	for path, first := range map[string]*int{"/etc/subuid": &ids.users, "/etc/subgid": &ids.groups} {
		f, err := os.Open(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return ids, err
		}
		found := 0
		if err == nil {
			found = firstRange(f, names)
			f.Close()
		}
		if found == 0 {
			return ids, fmt.Errorf("no line of %s gives user %s at least %d ids", path, names[len(names)-1],
				subordinates)
		}
		*first = found
	}
	return ids, nil
}

// firstRange reads lines NAME:FIRST:COUNT. It finds the first range that is large enough and belongs to one of these
// names, and returns the first id of that range. If there is no such range, it returns 0.
func firstRange(from io.Reader, names []string) int {
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		fields := strings.Split(strings.TrimSpace(lines.Text()), ":")
		if len(fields) != 3 {
			continue
		}
		first, err1 := strconv.Atoi(fields[1])
		count, err2 := strconv.Atoi(fields[2])
		if err1 != nil || err2 != nil || first <= 0 || count < subordinates {
			continue
		}
		for _, name := range names {
			if fields[0] == name {
				return first
			}
		}
	}
	return 0
}

// startWithIDs starts cmd in a user namespace with subordinate ids, and in the other namespaces that cmd asks for. In
// the user namespace, the user has id 0, and the subordinate ids follow. The process first runs this program. Once the
// ids are mapped, this program executes the program at path with the arguments of cmd. cmd may have at most two extra
// files.
func startWithIDs(cmd *exec.Cmd, path string, ids subordinateIDs) error {
	read, write, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("making a pipe: %w", err)
	}
	defer write.Close()
	cmd.ExtraFiles = slices.Clone(cmd.ExtraFiles)
	for len(cmd.ExtraFiles) < awaitFD-3 {
		cmd.ExtraFiles = append(cmd.ExtraFiles, nil)
	}
	cmd.ExtraFiles = append(cmd.ExtraFiles, read)
	cmd.Args = append([]string{"capstan-dock", AwaitCommand, path}, cmd.Args...)
	a := cmd.SysProcAttr
	a.Cloneflags |= syscall.CLONE_NEWUSER
	a.UidMappings, a.GidMappings = nil, nil
	// Until the ids are mapped, exec drops all capabilities but ambient ones.
	a.AmbientCaps = allCapabilities()
	err = cmd.Start()
	read.Close()
	if err != nil {
		return err
	}
	err = errors.Join(
		mapIDs("newuidmap", cmd.Process.Pid, os.Geteuid(), ids.users),
		mapIDs("newgidmap", cmd.Process.Pid, os.Getegid(), ids.groups))
	if err == nil {
		_, err = write.Write([]byte{1})
	}
	if err != nil {
		cmd.Process.Kill()
		cmd.Wait()
	}
	return err
}

// mapIDs maps 0 to the user's own id and the ids after it to the subordinate ids.
func mapIDs(program string, pid, own, first int) error {
	args := []string{
		strconv.Itoa(pid), "0", strconv.Itoa(own), "1", "1", strconv.Itoa(first), strconv.Itoa(subordinates),
	}
	cmd := exec.Command(program, args...)
	timer := time.AfterFunc(mapLimit, func() { cmd.Process.Kill() })
	defer timer.Stop()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, strings.TrimSpace(string(out)))
	}
	return nil
}

func allCapabilities() []uintptr {
	last := uintptr(unix.CAP_LAST_CAP)
	if data, err := os.ReadFile("/proc/sys/kernel/cap_last_cap"); err == nil {
		if n, err := strconv.Atoi(strings.TrimSpace(string(data))); err == nil && n > 0 {
			last = uintptr(n)
		}
	}
	var all []uintptr
	for c := range last + 1 {
		all = append(all, c)
	}
	return all
}

// AwaitIDs implements AwaitCommand. args holds the program, followed by the command line to execute. AwaitIDs returns
// only on failure.
func AwaitIDs(args []string) error {
	runtime.LockOSThread() // exec keeps the attributes of the calling thread
	unix.CloseOnExec(awaitFD)
	pipe := os.NewFile(awaitFD, "ids")
	if _, err := io.ReadFull(pipe, make([]byte, 1)); err != nil {
		return errors.New("the ids of this user namespace were not mapped")
	}
	if len(args) < 2 {
		return errors.New("only `capstan-dock run` starts this command")
	}
	err := syscall.Exec(args[0], args[1:], syscall.Environ())
	return fmt.Errorf("executing %s: %w", args[0], err)
}
