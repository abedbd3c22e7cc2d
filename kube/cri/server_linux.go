// Package cri is a small server of the Container Runtime Interface for local hosts.
//
// It needs no images, no cgroups and no privileges. Containers of control plane components (package component) are
// real: processes of a bundle's binary, in the host's own filesystem and network, with logs, exit codes, stop signals,
// exec and port-forward. All other containers are hollow: reported as running, or as completed where they are meant to
// end, with no process behind them.
//
// All state is on disk before it is reported. Processes outlive the server: a new one adopts what still runs and
// reports what ended meanwhile.
package cri

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/capstan-dev/capstan/kube/cgroup"
	"github.com/capstan-dev/capstan/kube/cri/logfile"
	"github.com/capstan-dev/capstan/kube/cri/process"
	"github.com/capstan-dev/capstan/kube/network"
	"github.com/capstan-dev/capstan/kube/run"
)

// Options say where a server works. State and Bundles are required.
type Options struct {
	// State is the server's directory; it is made when missing, and used by one server at a time.
	State string
	// Bundles finds binaries.
	Bundles Bundles
	// Env is environment for components by name, beside what their containers ask for (which wins), as NAME=value.
	Env map[string][]string
	// Images is where containers that are no components have their images from. They are hollow when it is nil, and
	// in pods that were made at a hollow endpoint.
	Images Images
	// Runner is the path of capstan-run; only Images needs it.
	Runner string
	// Groups are the control groups that limit real containers; nothing does when it is nil.
	Groups *cgroup.Tree
	// Unable is why this host can't run containers from images, nil if it can. All that is asked at an endpoint that
	// is not hollow is refused with it.
	Unable error
	// Log is where the server reports; slog.Default when nil.
	Log *slog.Logger
	// Step, which may be nil, is called between the steps by which pods are made and unmade, with the name of what
	// follows. Tests end the server there.
	Step func(name string)
}

// Server implements the services of the CRI. Make one with New, run it with Serve.
type Server struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	runtimeapi.UnimplementedImageServiceServer

	opts     Options
	log      *slog.Logger
	store    store
	lock     *os.File
	instance string // prefix of process tokens
	ownProc  bool   // /proc counts processes as this process does
	streams  *streams
	events   events
	uses     uses

	mu         sync.RWMutex // guards all below, fields of sandboxes and containers included
	sandboxes  map[string]*sandbox
	containers map[string]*container
	images     map[string]string // reference by id
	podCIDRs   []string

	net    *network.Network // of real pods
	others otherBundles

	supervisors sync.WaitGroup // goroutines that wait for processes
	closing     chan struct{}
}

// New opens the state directory and adopts what runs. Close the server when it is no longer served.
func New(opts Options) (*Server, error) {
	s := &Server{
		opts:       opts,
		log:        opts.Log,
		store:      store{opts.State},
		sandboxes:  map[string]*sandbox{},
		containers: map[string]*container{},
		images:     map[string]string{},
		closing:    make(chan struct{}),
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	if err := os.MkdirAll(opts.State, 0o700); err != nil {
		return nil, fmt.Errorf("making the state directory: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(opts.State, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock of the state directory: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		return nil, fmt.Errorf("another CRI server uses %s: stop it first: %w", opts.State, err)
	}
	s.lock = lock
	if s.opts.Step == nil {
		s.opts.Step = func(string) {}
	}
	s.net = network.New(s.opts.Step)
	s.ownProc = process.OwnProc()
	if opts.Images != nil && opts.Unable == nil && !s.ownProc {
		s.opts.Unable = errors.New("containers from images need /proc of the host's own PID namespace, " +
			"and here it is an outer one's: run the dock where no part of /proc is covered, or have hollow containers")
	}
	if err := s.restore(); err != nil {
		s.Close()
		return nil, err
	}
	if s.streams, err = newStreams(s); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close ends streams and supervision and lets go of all processes, which run on.
func (s *Server) Close() error {
	select {
	case <-s.closing:
		return nil
	default:
		close(s.closing)
	}
	s.events.close()
	if s.streams != nil {
		s.streams.close()
	}
	s.mu.RLock()
	for _, c := range s.containers {
		if c.process != nil {
			c.process.Close()
		}
	}
	for _, sb := range s.sandboxes {
		if sb.pause != nil {
			sb.pause.process.Close()
		}
	}
	s.mu.RUnlock()
	s.supervisors.Wait()
	return s.lock.Close()
}

// restore reads the state directory. Processes that still run are adopted; containers whose process is gone, or all
// after a reboot of the host, have exited.
func (s *Server) restore() error {
	var err error
	if s.instance, err = s.store.instance(); err != nil {
		return err
	}
	rebooted, err := s.store.rebooted()
	if err != nil {
		return err
	}
	sandboxes, containers, err := s.store.load()
	if err != nil {
		return err
	}
	s.podCIDRs = s.store.podCIDRs()
	for _, ref := range s.store.images() {
		s.images[imageID(ref)] = ref
	}
	running, err := process.Find()
	if err != nil {
		return err
	}
	for _, sb := range sandboxes {
		if rebooted {
			sb.Ready = false
		}
		s.sandboxes[sb.ID] = sb
	}
	for _, c := range containers {
		if s.sandboxes[c.Sandbox] == nil {
			s.log.Warn("dropping a container without a sandbox", "container", c.ID)
			if err := s.store.removeContainer(c.ID); err != nil {
				return err
			}
			continue
		}
		s.containers[c.ID] = c
	}
	for token, pid := range running {
		id, ours := strings.CutPrefix(token, s.instance+"/")
		if !ours {
			continue
		}
		if pod, is := strings.CutPrefix(id, podToken); is && s.sandboxes[pod] != nil {
			err = s.adoptPause(s.sandboxes[pod], token, pid)
		} else if c := s.containers[id]; c != nil {
			err = s.adopt(c, pid)
		} else {
			err = s.killStray(token, pid)
		}
		if err != nil && !errors.Is(err, process.ErrGone) {
			return err
		}
	}
	for _, c := range s.containers {
		lost := c.process == nil && (c.PID != 0 || rebooted)
		if c.State != runtimeapi.ContainerState_CONTAINER_RUNNING || !lost {
			continue
		}
		s.lost(c)
		if err := s.store.saveContainer(c); err != nil {
			return err
		}
	}
	if err := s.sweepGroups(); err != nil {
		return err
	}
	connected, err := s.restorePods()
	if err != nil {
		return err
	}
	for _, sb := range s.sandboxes {
		if sb.Real && sb.Ready {
			needsPause := sb.namespaces().GetPid() == runtimeapi.NamespaceMode_POD
			sb.Ready = s.spaces(sb.ID).complete(sb.namespaces()) && (sb.pause != nil || !needsPause) &&
				(connected[sb.ID] || sb.hostNetwork())
		}
		if err := s.store.saveSandbox(sb); err != nil {
			return err
		}
	}
	return s.store.markBoot()
}

// lost records that a container ended while no server ran.
func (s *Server) lost(c *container) {
	exit := process.Exit{Code: process.CodeUnknown, At: time.Now()}
	c.Reason, c.Message = "Unknown", "ended while the CRI server was not running"
	if c.Real {
		if exit = s.realExit(c, exit); exit.Code != process.CodeUnknown {
			c.Reason, c.Message = s.realReason(c, exit.Code), ""
		}
		s.dropGroups(c)
	}
	c.State = runtimeapi.ContainerState_CONTAINER_EXITED
	c.FinishedAt = exit.At.UnixNano()
	c.ExitCode = exit.Code
}

// adopt takes over the process of a container, and its output.
func (s *Server) adopt(c *container, pid int) error {
	p, err := process.Adopt(s.token(c.ID), pid)
	if err != nil {
		return err
	}
	var report run.Report
	if c.Real {
		if report, err = s.adoptReport(s.store.containerDir(c.ID), p); err != nil {
			p.Close()
			return err
		}
	}
	log, err := logfile.Open(c.LogPath)
	if err != nil {
		// A component without a log is better than none.
		s.log.Warn("adopting a process without its log", "container", c.ID, "error", err)
		if log, err = logfile.Open(""); err != nil {
			return err
		}
	}
	out, err := adoptOutput(s.store.containerDir(c.ID))
	if err != nil {
		return errors.Join(err, log.Close())
	}
	streams, err := containerStreams(c, p, &report, out)
	if err != nil {
		return errors.Join(err, log.Close())
	}
	c.process, c.log, c.PID, c.report = p, log, pid, report
	c.State = runtimeapi.ContainerState_CONTAINER_RUNNING
	if c.StartedAt == 0 {
		c.StartedAt = time.Now().UnixNano()
	}
	s.log.Info("adopted a process", "container", c.name(), "pid", pid)
	s.supervise(c, streams)
	return nil
}

// killStray ends a process of a container that was removed.
func (s *Server) killStray(token string, pid int) error {
	p, err := process.Adopt(token, pid)
	if err != nil {
		return err
	}
	defer p.Close()
	s.log.Warn("ending a process whose container is gone", "pid", pid)
	return p.Stop(unix.SIGKILL, 0)
}

// token names the process of a container. Other hosts' processes can be visible, so ours are told apart.
func (s *Server) token(container string) string { return s.instance + "/" + container }

// newID returns a random id as other runtimes make them: 64 hexadecimal digits.
func newID() string {
	var b [32]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// removeIfExists removes a file or directory tree; one that isn't there is fine.
func removeIfExists(path string) error {
	if err := os.RemoveAll(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
