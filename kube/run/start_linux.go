package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// File descriptors of the second part, which becomes the program.
const (
	orderFD  = 3 // the second part reads its order from this file
	resultFD = 4 // the second part writes its result to this file; exec closes the file
	beginFD  = 5 // the second part waits at this file until the container is complete
)

// order is sent to the second part.
type order struct {
	Process  Process
	Identity Identity
	Nested   bool
	Pause    bool
	// OwnGroups makes the process's control groups the top of the tree for the program.
	OwnGroups bool
}

// result is the answer of the second part if it fails or had to leave something out.
type result struct {
	Error string   `json:",omitempty"`
	Notes []string `json:",omitempty"`
}

// starter starts programs in the namespaces of a thread that may no longer see the host.
type starter struct {
	self int // capstan-run itself, open
	ids  ids
	maps chan mapRequest // requests to the goroutine that still sees the host
	// groups are open files of control groups; a process joins when its id is written to them.
	groups []*os.File
}

// mapRequest is a request to map the ids of a process.
type mapRequest struct {
	pid      int
	identity Identity
	done     chan error
}

// newStarter prepares everything that is needed to start programs in these control groups. Call it while this process
// still sees the host. The starter's goroutine runs until the process exits.
func newStarter(groups []string) (*starter, error) {
	s := &starter{maps: make(chan mapRequest)}
	var err error
	if s.groups, err = openGroups(groups); err != nil {
		return nil, err
	}
	if s.ids, err = ownIDs(); err != nil {
		return nil, err
	}
	if s.self, err = openSelf(); err != nil {
		return nil, err
	}
	go func() {
		for r := range s.maps {
			r.done <- writeMaps(r.pid, r.identity)
		}
	}()
	return s, nil
}

// openSelf opens this program on a private read-only mount. Programs in a container can reach it for a moment through
// /proc/PID/exe, and must not be able to write to it.
func openSelf() (int, error) {
	mount, err := clone("/proc/self/exe")
	if err != nil {
		return -1, err
	}
	if err := readOnly(mount, false); err != nil {
		return -1, fmt.Errorf("protecting the supervisor's program: %w", err)
	}
	// Use a descriptor that no file of the container's program has.
	fd, err := unix.FcntlInt(uintptr(mount), unix.F_DUPFD_CLOEXEC, terminalFD+1)
	if err != nil {
		return -1, fmt.Errorf("opening the supervisor's program: %w", err)
	}
	return fd, nil
}

// spawned is a process waiting to become a program.
type spawned struct {
	pid     int
	order   order
	orders  *os.File // a file in memory, which is empty until release writes to it
	results *os.File
	begin   *os.File
	notes   []string
}

// spawn starts a process with these standard streams in the calling thread's namespaces and root. The process waits
// until the function release turns it into a program, or the function kill ends it.
func (s *starter) spawn(o order, stdio [3]*os.File) (p *spawned, err error) {
	id, nested, notes := s.ids.place(o.Identity)
	o.Identity, o.Nested = id, nested
	p = &spawned{order: o, notes: notes}
	var resultEnd, goEnd *os.File
	defer func() {
		closeAll(resultEnd, goEnd)
		if err != nil {
			closeAll(p.orders, p.results, p.begin)
		}
	}()
	if p.orders, err = memory(); err != nil {
		return nil, err
	}
	if p.results, resultEnd, err = os.Pipe(); err != nil {
		return nil, fmt.Errorf("making a pipe: %w", err)
	}
	if goEnd, p.begin, err = os.Pipe(); err != nil {
		return nil, fmt.Errorf("making a pipe: %w", err)
	}
	attr := &syscall.ProcAttr{
		Env:   []string{"GOMAXPROCS=1", "GOGC=off"},
		Files: []uintptr{stdio[0].Fd(), stdio[1].Fd(), stdio[2].Fd(), p.orders.Fd(), resultEnd.Fd(), goEnd.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true, Setctty: o.Process.Terminal},
	}
	if nested {
		// If the user is not root in the new user namespace, executing capstan-run drops all capabilities except
		// ambient ones.
		attr.Sys.Cloneflags = unix.CLONE_NEWUSER
		attr.Sys.AmbientCaps = allCapabilities()
	}
	if p.pid, err = syscall.ForkExec(fdPath(s.self), []string{"capstan-run", "init"}, attr); err != nil {
		return nil, fmt.Errorf("starting a process in the container: %w", err)
	}
	if err := s.join(p.pid); err != nil {
		kill(p.pid)
		return nil, err
	}
	if nested {
		r := mapRequest{p.pid, id, make(chan error, 1)}
		s.maps <- r
		if err := <-r.done; err != nil {
			kill(p.pid)
			return nil, err
		}
	}
	return p, nil
}

// close releases a process's files.
func (p *spawned) close() { closeAll(p.orders, p.results, p.begin) }

// release turns the process into a program. It returns once the program executes or has failed to; on failure the
// process has ended.
func (p *spawned) release() (report Report, err error) {
	defer p.close()
	defer func() {
		if err != nil {
			kill(p.pid)
		}
	}()
	data, err := json.Marshal(p.order)
	if err != nil {
		return report, fmt.Errorf("encoding: %w", err)
	}
	if _, err := p.orders.WriteAt(data, 0); err != nil {
		return report, fmt.Errorf("telling the process in the container: %w", err)
	}
	if _, err := p.begin.Write([]byte{1}); err != nil {
		return report, fmt.Errorf("telling the process in the container: %w", err)
	}
	report = Report{PID: p.pid, User: p.order.Identity, Notes: p.notes}
	// Executing the program closes the other side of the pipe for results, so io.EOF means success.
	for answers := json.NewDecoder(p.results); ; {
		var r result
		if err := answers.Decode(&r); errors.Is(err, io.EOF) {
			return report, nil
		} else if err != nil {
			return Report{}, fmt.Errorf("waiting for a process in the container: %w", err)
		}
		if r.Error != "" {
			return Report{}, errors.New(r.Error)
		}
		report.Notes = append(report.Notes, r.Notes...)
	}
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}

// kill kills a child.
func kill(pid int) {
	unix.Kill(pid, unix.SIGKILL)
	wait(pid)
}

// wait waits for a child and returns its exit code.
func wait(pid int) int {
	var status unix.WaitStatus
	for {
		_, err := unix.Wait4(pid, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return unknownCode
		case status.Signaled():
			return 128 + int(status.Signal())
		default:
			return status.ExitStatus()
		}
	}
}

// unknownCode is the exit code of a process that can't be waited for.
const unknownCode = 255

// memory returns an anonymous file.
func memory() (*os.File, error) {
	fd, err := unix.MemfdCreate("order", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("making a file in memory: %w", err)
	}
	return os.NewFile(uintptr(fd), "order"), nil
}

// writeMaps maps the single id of a process in a new user namespace.
func writeMaps(pid int, id Identity) error {
	dir := "/proc/" + strconv.Itoa(pid)
	for _, f := range [][2]string{
		{"setgroups", "deny"},
		{"uid_map", strconv.FormatInt(id.UID, 10) + " 0 1"},
		{"gid_map", strconv.FormatInt(id.GID, 10) + " 0 1"},
	} {
		file, err := os.OpenFile(dir+"/"+f[0], os.O_WRONLY, 0)
		if err == nil {
			_, err = file.WriteString(f[1])
			file.Close()
		}
		if err != nil {
			return fmt.Errorf("making user %d of group %d in a user namespace: %w", id.UID, id.GID, err)
		}
	}
	return nil
}

// startTime returns the start time of a process: field 22 of /proc/PID/stat. An earlier field, a name in parentheses,
// may contain anything.
func startTime(pid int) (string, error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", err
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 20 {
		return "", fmt.Errorf("/proc/%d/stat is truncated", pid)
	}
	return fields[19], nil
}
