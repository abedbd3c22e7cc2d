package dock

import (
	"io/fs"
	"path/filepath"
	"time"
)

// HostSpec describes a host for EnsureHost.
type HostSpec struct {
	// Name is a DNS label of at most 63 bytes. It is also the initial host name.
	Name string `json:"name"`
	// Files are written before the host starts, or at once if it runs. Each replaces an existing file as a whole and
	// belongs to root. A running host does not see files that are written below its mount points, such as /run.
	Files []File `json:"files,omitempty"`
	// Env (NAME=VALUE) is added to the environment of every service of the host, from the next start on.
	Env []string `json:"env,omitempty"`
}

// File is a file of a host.
type File struct {
	Path string      `json:"path"` // absolute, as the host sees it
	Mode fs.FileMode `json:"mode"` // permission bits; 0 means 0600
	Data []byte      `json:"data"`
}

// HostState is the state of a host.
type HostState string

// The states of a host.
const (
	HostStopped  HostState = "Stopped"
	HostStarting HostState = "Starting"
	HostRunning  HostState = "Running"
	HostStopping HostState = "Stopping"
	HostFailed   HostState = "Failed" // it could not start, or stopped by itself; it is restarted after a while
	HostDeleting HostState = "Deleting"
)

// Host is a local host as it is now.
type Host struct {
	Name    string    `json:"name"`
	Address string    `json:"address"` // IPv4 in the dock; kept until the host is deleted
	State   HostState `json:"state"`
	// PID is the process id, on the machine, of the host's PID 1, or 0 if the host doesn't run.
	PID      int       `json:"pid,omitempty"`
	Since    time.Time `json:"since"`              // when the host entered this state
	Restarts int       `json:"restarts,omitempty"` // restarts after the host exited by itself, since the dock started
	Error    string    `json:"error,omitempty"`    // the error of the last start, or why the host stopped
	Root     string    `json:"root"`               // the host's root directory on the machine
	// IDs is the number of the host's user and group ids, 0 if the host doesn't run.
	IDs int `json:"ids,omitempty"`
	// Limits names the controllers that limit the host and its pods, such as "cpu.memory.pids". It is empty without
	// limits.
	Limits string `json:"limits,omitempty"`
}

// Balancer is a TCP load balancer with an address of its own.
type Balancer struct {
	Name     string   `json:"name"`
	Address  string   `json:"address"` // IPv4 in the dock; kept until the balancer is deleted
	Port     int      `json:"port"`    // always BalancerPort
	Backends []string `json:"backends"`
	Down     []string `json:"down,omitempty"` // backends that did not accept the last connection
	// Relay is the balancer's address on the machine: "127.0.0.1:PORT". The port stays until the balancer is deleted.
	Relay string `json:"relay"`
	Error string `json:"error,omitempty"` // why it does not work at the moment
}

// BalancerPort is the port of every balancer.
const BalancerPort = 6443

// Relay forwards TCP connections from a port of the machine's loopback interface to an address in the dock.
type Relay struct {
	Name   string `json:"name"`
	Local  string `json:"local"`  // "127.0.0.1:PORT"; the port is kept until the relay is deleted
	Target string `json:"target"` // "ADDRESS:PORT" in the dock
	Error  string `json:"error,omitempty"`
}

// Publication is an address of the machine that forwards connections, from other computers too, to a server in the
// dock.
type Publication struct {
	// Address is "ADDRESS:PORT" on the machine.
	Address string `json:"address"`
	// Target is "ADDRESS:PORT" in the dock.
	Target string `json:"target"`
	// Announce makes each connection to Target begin with a PROXY protocol version 1 header, which names the connection's
	// source.
	Announce bool `json:"announce,omitempty"`
}

// PerSource is the number of concurrent connections that a published address accepts from one source address. Further
// ones are closed at once, so that one client can't use all of the dock's connections.
const PerSource = 512

// Unit is a process that the dock keeps running in its own namespaces, such as the management plane.
type Unit struct {
	Name string   `json:"name"` // a DNS label
	Argv []string `json:"argv"` // Argv[0] is an absolute path
	// Env (NAME=VALUE) is added to the dock's PATH, HOME, USER and LANG.
	Env     []string `json:"env,omitempty"`
	Dir     string   `json:"dir,omitempty"`     // "" is /
	LogFile string   `json:"logFile,omitempty"` // output is appended, bounded; "" is HOME/dock/NAME.log
	// Grace is how long the unit may take to stop after SIGTERM; 0 means 20 s.
	Grace time.Duration `json:"grace,omitempty"`
}

// UnitStatus is a unit as it is now.
type UnitStatus struct {
	Unit
	Running  bool      `json:"running"`
	PID      int       `json:"pid,omitempty"` // as the machine sees it
	Since    time.Time `json:"since"`
	Restarts int       `json:"restarts,omitempty"` // since the unit was started
	LastExit string    `json:"lastExit,omitempty"` // "exited with status 1", "was killed by signal: killed"
}

// Status describes everything in a dock.
type Status struct {
	PID       int          `json:"pid"`      // of the dock's first process inside, as the machine sees it
	Instance  string       `json:"instance"` // differs after each start
	Rootless  bool         `json:"rootless"` // the dock has a user namespace
	Started   time.Time    `json:"started"`
	BinDir    string       `json:"binDir"`
	Gateway   string       `json:"gateway"` // the dock's own address, as hosts see it
	Hosts     []Host       `json:"hosts"`
	Balancers []Balancer   `json:"balancers"`
	Relays    []Relay      `json:"relays"` // except the relays of balancers
	Units     []UnitStatus `json:"units"`
}

// Gateway is the dock's own address as its hosts see it; the plane's API server listens there.
const Gateway = "10.231.0.1"

// Dir returns the dock's directory in a home directory.
func Dir(home string) string { return filepath.Join(home, "dock") }

// HostDir returns the directory of a host. Its "root" is the host's root directory, its "console.log" the output of the
// host's PID 1.
func HostDir(home, name string) string { return filepath.Join(Dir(home), "hosts", name) }

// UnitLog returns the default log file of a unit.
func UnitLog(home, name string) string { return filepath.Join(Dir(home), name+".log") }
