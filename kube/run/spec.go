// Package run runs one container. It implements the small program capstan-run, and defines the files and messages that
// callers exchange with it.
//
// A caller writes a Spec into the container's directory and starts "capstan-run container DIRECTORY". That supervisor
// creates the namespaces and the root, starts the program in them, sends a Report, and waits. When the program has
// ended, the supervisor writes an Exit into the directory and exits with the same exit code. It does not need its
// caller: after a crash, a new caller finds running containers by their report files, and ended ones by their exit
// files. If the supervisor itself is killed, the kernel kills the program.
//
// "capstan-run exec" runs another program in a container. "capstan-run check" reports whether the requested ids exist.
// The package imports little on purpose: each container pays for the memory of its supervisor.
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
	StdinFile   = "stdin" // a named pipe, if Process.Stdin is set
	rootDir     = "root"
	upperDir    = "upper"
	workDir     = "work"
	emptyDir    = "empty"
	imagesDir   = "images"
)

// File descriptors of capstan-run in addition to the standard ones.
const (
	ReportFD = 3 // capstan-run writes its Report here and closes it
	SpecFD   = 4 // "exec" reads an Exec here
)

// Values of namespaces other than a path to join.
const (
	New  = ""     // a new one for the container
	Host = "host" // the supervisor's
)

// Namespaces selects the container's namespace of each kind: New, Host, or the path of a namespace to join.
type Namespaces struct{ PID, Net, IPC, UTS string }

// Spec describes a container.
type Spec struct {
	// Layers are the image's directories, lowest first. They are only read. They mark deletions in the form that
	// overlayfs needs with its option userxattr: a character device 0/0 in place of a deleted file,
	// user.overlay.opaque=y on a replaced directory.
	Layers []string
	// ReadOnlyRoot makes the root read-only, except for mounts.
	ReadOnlyRoot bool
	Namespaces   Namespaces
	// Hostname is set if the UTS namespace is new.
	Hostname string
	// Mounts are mounted in this order, after the standard ones (/proc, /sys, and /dev with its content).
	Mounts []Mount
	// Devices are bind-mounted from the host; AllDevices adds all devices of the host.
	Devices    []Device
	AllDevices bool
	// Shm and Mqueue are the pod's mounts for /dev/shm and /dev/mqueue. If they are empty, new ones are created.
	Shm, Mqueue string
	// The paths in Masked appear empty, and the paths in ReadOnly can't be written.
	Masked, ReadOnly []string
	// WritableSys keeps /sys writable, for privileged containers.
	WritableSys bool
	// Sysctls maps names (with dots) to values to be set in the container's namespaces.
	Sysctls map[string]string
	// Pause runs a process that only reaps orphans, as the first process of a PID namespace that containers share. Of
	// the other fields it uses only Namespaces.
	Pause   bool
	Process Process
	// Groups are the directories of the control groups in which the program starts.
	Groups []string `json:",omitempty"`
	// OwnGroups makes Groups the top of the tree that the program sees, by means of a cgroup namespace.
	OwnGroups bool `json:",omitempty"`
	// GroupMounts are mounted at /sys/fs/cgroup: a group without names directly there, other groups below. They are
	// read-only unless WritableSys is set.
	GroupMounts []GroupMount `json:",omitempty"`
}

// GroupMount is a control group to mount.
type GroupMount struct {
	// Source is the directory of the control group on the host.
	Source string
	// Names are the name of the mount and the names of links to the mount.
	Names []string `json:",omitempty"`
}

// Process describes a program to run in a container.
type Process struct {
	// Args is the command line. A name without a slash is looked up in the PATH of Env.
	Args []string
	Env  []string
	// Dir is the working directory, created if missing; "" means "/".
	Dir  string
	User User
	// Terminal gives the program a terminal with this many rows and columns; 0 leaves the size unset.
	Terminal   bool
	Rows, Cols uint16
	// Stdin connects standard input: for a container to the pipe StdinFile, for Exec to capstan-run's standard input.
	Stdin bool
	// Capabilities lists capabilities by name (CAP_CHOWN).
	Capabilities Capabilities
	// NoNewPrivileges keeps the program from gaining privileges through exec.
	NoNewPrivileges bool
	// Seccomp is a filter built by package seccomp, or empty for none.
	Seccomp []byte
	Rlimits []Rlimit
	// OOMScoreAdj is applied if possible; nil leaves the score unchanged.
	OOMScoreAdj *int
}

// User names the user of a process.
type User struct {
	// Name is "user", "uid", "user:group" and so on, looked up in the image's own files. Empty means root.
	Name string
	// UID and GID take precedence over Name.
	UID, GID *int64
	// Groups are further groups. Strict ignores the groups that the image's /etc/group adds.
	Groups []int64
	Strict bool
}

// Mount is a bind mount, or the mount of an image.
type Mount struct {
	// Source is a path on the host. If Layers are given, it is a path in the image and can't lead out of it.
	Source, Target string
	// Layers are the directories of an image to mount read-only, as in Spec.
	Layers []string `json:",omitempty"`
	// Create creates a directory at Source on the host, with its parents, if nothing is there. A link in the path is
	// followed only to an existing target.
	Create   bool `json:",omitempty"`
	ReadOnly bool
	// Recursive also makes mounts below Source read-only.
	Recursive   bool
	Propagation Propagation
}

// Propagation selects which later mounts propagate between the host and the container.
type Propagation string

// The modes of propagation.
const (
	Private         Propagation = ""
	HostToContainer Propagation = "host-to-container"
	Bidirectional   Propagation = "bidirectional"
)

// Device is a device file of the host.
type Device struct{ Source, Target string }

// Capabilities are the capabilities of a process. A user other than root starts with only the ambient ones.
type Capabilities struct{ Bounding, Ambient []string }

// Rlimit is a resource limit of a process, by name (RLIMIT_NOFILE).
type Rlimit struct {
	Name       string
	Soft, Hard uint64
}

// Exec describes a program to run in a running container.
type Exec struct {
	// PID is a process in the container, in the caller's PID namespace.
	PID     int
	Process Process
	// Groups are the Groups of the container's Spec.
	Groups []string `json:",omitempty"`
}

// Report is the result of a start.
type Report struct {
	// Error is the reason why nothing runs; all other fields are then empty.
	Error string `json:",omitempty"`
	// PID is the program's process id in the supervisor's PID namespace. Started is its start time in ticks since the
	// machine's boot. Together they identify the process for good.
	PID     int
	Started string
	// Terminal is the supervisor's descriptor of the terminal's other end, or 0.
	Terminal int `json:",omitempty"`
	// User is the identity of the running program.
	User Identity
	// Notes lists what was impossible and therefore left out.
	Notes []string `json:",omitempty"`
	// Advice says what to do if the program fails for lack of ids: the image has users whose ids the host lacks.
	Advice string `json:",omitempty"`
}

// Identity is the result of looking up a User.
type Identity struct {
	UID, GID int64
	Groups   []int64 `json:",omitempty"`
	Home     string  `json:",omitempty"`
}

// Exit says how a container's program ended.
type Exit struct {
	// Code is the exit code, or 128 + N if signal N killed the program.
	Code int32
	// At is the time in nanoseconds since 1970.
	At int64
}

// WriteSpec writes the Spec of a container into its directory.
func WriteSpec(dir string, spec *Spec) error { return writeJSON(filepath.Join(dir, SpecFile), spec) }

// ReadRunning returns the report of a started container, or false if there is none.
func ReadRunning(dir string) (Report, bool, error) {
	return readJSON[Report](filepath.Join(dir, RunningFile))
}

// ReadExit returns how a container ended, or false if that was not written.
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
