// Package run runs one container: it is all that the small program capstan-run does, and what its callers need to ask
// for it.
//
// A caller writes a Spec into the container's directory and starts "capstan-run container DIRECTORY". That supervisor
// makes the namespaces and the root, starts the program in them, reports by a Report, and waits. When the program has
// ended it writes an Exit into the directory and ends with the same exit code. It needs no caller meanwhile: one that
// was killed finds what runs by the file of the report, and what has ended by the file of the exit. When the
// supervisor itself is killed the kernel kills the program.
//
// "capstan-run exec" runs one more program in a container, "capstan-run check" reports whether the ids that it is
// asked for exist. The package imports little on purpose: each container pays for the memory of its supervisor.
package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Names of files in a container's directory.
const (
	SpecFile    = "spec.json"
	RunningFile = "running.json"
	ExitFile    = "exit.json"
	StdinFile   = "stdin" // a named pipe, where Process.Stdin is set
	rootDir     = "root"
	upperDir    = "upper"
	workDir     = "work"
)

// File descriptors of capstan-run beside the standard ones.
const (
	ReportFD = 3 // it writes a Report there, and closes it
	SpecFD   = 4 // "exec" reads an Exec there
)

// Namespaces that are neither a path to join.
const (
	New  = ""     // the container has its own
	Host = "host" // the container has its supervisor's
)

// Namespaces says for each kind of namespace where the container gets it from: New, Host, or the path of one to join.
type Namespaces struct{ PID, Net, IPC, UTS string }

// Spec describes a container.
type Spec struct {
	// Layers are the image's directories, the lowest first. They are only read. Deletions in them are as overlayfs
	// wants them with its option userxattr: a character device 0/0 in the place of what is gone,
	// user.overlay.opaque=y on a replaced directory.
	Layers []string
	// ReadOnlyRoot forbids to write in the root but for mounts.
	ReadOnlyRoot bool
	Namespaces   Namespaces
	// Hostname is set in a new UTS namespace.
	Hostname string
	// Mounts are made in this order, after the usual ones (/proc, /sys, /dev and what is in it).
	Mounts []Mount
	// Devices are bound from the host; AllDevices binds all that the host has.
	Devices    []Device
	AllDevices bool
	// Shm and Mqueue are mounts of the pod, for /dev/shm and /dev/mqueue; new ones are made when empty.
	Shm, Mqueue string
	// Masked paths show nothing; ReadOnly paths can't be written.
	Masked, ReadOnly []string
	// WritableSys leaves /sys writable, for privileged containers.
	WritableSys bool
	// Sysctls are set in the container's namespaces: name (with dots) to value.
	Sysctls map[string]string
	// Pause makes a process that does nothing but reap, as the first one of a PID namespace that containers share. Of
	// the other fields only Namespaces counts.
	Pause   bool
	Process Process
	// Groups are the directories of the control groups that the program starts in.
	Groups []string `json:",omitempty"`
}

// Process describes a program to run in a container.
type Process struct {
	// Args is the command line. A name without a slash is looked for in the PATH of Env.
	Args []string
	Env  []string
	// Dir is the working directory, made when missing; "/" when empty.
	Dir  string
	User User
	// Terminal gives the program a terminal, with this many rows and columns unless 0.
	Terminal   bool
	Rows, Cols uint16
	// Stdin connects standard input: the pipe StdinFile for a container, standard input of capstan-run for Exec.
	Stdin bool
	// Capabilities by name (CAP_CHOWN).
	Capabilities Capabilities
	// NoNewPrivileges forbids to gain any by executing.
	NoNewPrivileges bool
	// Seccomp is a filter as package seccomp makes it, none when empty.
	Seccomp []byte
	Rlimits []Rlimit
	// OOMScoreAdj is tried; nil leaves it alone.
	OOMScoreAdj *int
}

// User names the user of a process.
type User struct {
	// Name is a user, "user", "uid", "user:group" and so on, looked up in the image's own files. Empty is root.
	Name string
	// UID and GID win over Name.
	UID, GID *int64
	// Groups are further groups. Strict leaves out those that the image's /etc/group adds.
	Groups []int64
	Strict bool
}

// Mount is a bind mount.
type Mount struct {
	Source, Target string
	ReadOnly       bool
	// Recursive makes what is mounted below Source read-only too.
	Recursive   bool
	Propagation Propagation
}

// Propagation says which later mounts pass between the host and the container.
type Propagation string

// The kinds of propagation.
const (
	Private         Propagation = ""
	HostToContainer Propagation = "host-to-container"
	Bidirectional   Propagation = "bidirectional"
)

// Device is a device file of the host.
type Device struct{ Source, Target string }

// Capabilities are those of a process: a user other than root starts with the ambient ones only.
type Capabilities struct{ Bounding, Ambient []string }

// Rlimit is a limit of a process, by its name (RLIMIT_NOFILE).
type Rlimit struct {
	Name       string
	Soft, Hard uint64
}

// Exec describes a program that is run in a container which runs.
type Exec struct {
	// PID is a process in the container, as the caller counts.
	PID     int
	Process Process
	// Groups are those of the container's Spec.
	Groups []string `json:",omitempty"`
}

// Report says how a start went.
type Report struct {
	// Error says why nothing runs; all else is empty then.
	Error string `json:",omitempty"`
	// PID is the program's, as the supervisor counts, and Started its time in ticks since the machine's boot: both
	// together name one process for good.
	PID     int
	Started string
	// Terminal is the supervisor's descriptor of the terminal's other end, 0 without one.
	Terminal int `json:",omitempty"`
	// User is who the program runs as.
	User Identity
	// Notes say what could not be done and was left out.
	Notes []string `json:",omitempty"`
}

// Identity is a looked up user.
type Identity struct {
	UID, GID int64
	Groups   []int64 `json:",omitempty"`
	Home     string  `json:",omitempty"`
}

// Exit says how a container's program ended.
type Exit struct {
	// Code is the exit code, 128 + N when signal N ended it.
	Code int32
	// At is when, in nanoseconds since 1970.
	At int64
}

// WriteSpec writes the Spec of a container into its directory.
func WriteSpec(dir string, spec *Spec) error { return writeJSON(filepath.Join(dir, SpecFile), spec) }

// ReadRunning returns the report of a container that was started; false when there is none.
func ReadRunning(dir string) (Report, bool, error) {
	return readJSON[Report](filepath.Join(dir, RunningFile))
}

// ReadExit returns how a container ended; false when that was not written.
func ReadExit(dir string) (Exit, bool, error) { return readJSON[Exit](filepath.Join(dir, ExitFile)) }

func readJSON[T any](path string) (value T, ok bool, err error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return value, false, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &value)
	}
	if err != nil {
		return value, false, fmt.Errorf("reading %s: %w", path, err)
	}
	return value, true, nil
}

// writeJSON replaces a file as a whole.
func writeJSON(path string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	next := path + ".next"
	if err := os.WriteFile(next, data, 0o600); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := os.Rename(next, path); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}
