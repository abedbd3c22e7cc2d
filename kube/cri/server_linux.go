// Package cri is a small server of the Container Runtime Interface for local hosts.
//
// Containers of control plane components (package component) are real: processes of a bundle's binary, in the host's
// own filesystem and network, with logs, exit codes, stop signals, exec and port-forward. They need no images, no
// cgroups and no privileges. All other containers are hollow if they were requested at a hollow endpoint: they have no
// process, and are reported as running, or as completed if they are meant to exit. At other endpoints, they run from
// images (Options.Images).
//
// All state is on disk before it is reported. Processes outlive the server: a new server adopts those that still run
// and reports those that have ended.
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

// Options configure a server. State and Bundles are required.
type Options struct {
	// State is the server's directory. New creates it if missing; only one server at a time may use it.
	State string
	// Bundles locates the binaries of components.
	Bundles Bundles
	// Env maps the names of components to environment variables (NAME=value). A container's own variables take
	// precedence.
	Env map[string][]string
	// Images is the source of images for containers other than components. If it is nil, or a pod was created at a
	// hollow endpoint, these containers are hollow.
	Images Images
	// Runner is the path of capstan-run; only Images needs it.
	Runner string
	// Groups are the control groups that limit real containers; nil means no limits.
	Groups *cgroup.Tree
	// Unable is the reason why this host can't run containers from images, or nil. Every request at an endpoint that is
	// not hollow fails with this reason.
	Unable error
	// Log receives the server's messages; nil means slog.Default.
	Log *slog.Logger
	// Step, which may be nil, is called between the steps that create and remove pods, with the name of the next step.
	// Tests stop the server at such a step.
	Step func(name string)
}

// Server implements the services of the CRI. Create one with New, run it with Serve.
type Server struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	runtimeapi.UnimplementedImageServiceServer

	opts     Options
	log      *slog.Logger
	store    store
	lock     *os.File
	instance string // prefix of process tokens
	ownProc  bool   // whether /proc shows this process's own PID namespace
	streams  *streams
	events   events
	uses     uses

	mu         sync.RWMutex // guards everything below, including fields of sandboxes and containers
	sandboxes  map[string]*sandbox
	containers map[string]*container
	images     map[string]string // maps ids to references
	podCIDRs   []string

	net    *network.Network // the network of real pods
	others otherBundles

	supervisors sync.WaitGroup // goroutines that wait for processes
	closing     chan struct{}
}

// New opens the state directory and adopts running processes. The caller must close the server after serving.
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
		s.opts.Unable = errors.New("containers from images need a /proc of the host's own PID namespace, " +
			"but this /proc belongs to an outer namespace: run the dock where nothing is mounted over parts of /proc, " +
			"or use hollow containers")
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

// Close ends all streams and stops watching the processes of containers, which keep running.
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

// restore reads the state directory and adopts processes that still run. Containers without a process have exited.
// After a reboot of the host, all containers have exited.
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
			c.Reason, c.Message = s.realReason(c, exit.Code), s.realMessage(c, exit.Code)
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
		// Keep the container running, even without a log.
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

// killStray kills the process of a removed container.
func (s *Server) killStray(token string, pid int) error {
	p, err := process.Adopt(token, pid)
	if err != nil {
		return err
	}
	defer p.Close()
	s.log.Warn("ending a process whose container is gone", "pid", pid)
	return p.Stop(unix.SIGKILL, 0)
}

// token returns the token of a container's process. The prefix distinguishes this server's processes from those of
// other hosts, which may be visible.
func (s *Server) token(container string) string { return s.instance + "/" + container }

// newID returns a random id of 64 hexadecimal digits, as in other runtimes.
func newID() string {
	var b [32]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// removeIfExists removes a file or directory tree if it exists.
func removeIfExists(path string) error {
	if err := os.RemoveAll(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
