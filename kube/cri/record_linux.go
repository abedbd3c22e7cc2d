package cri

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/capstan-dev/capstan/kube/cri/logfile"
	"github.com/capstan-dev/capstan/kube/cri/process"
	"github.com/capstan-dev/capstan/kube/run"
)

// sandbox is a pod sandbox as it is stored on disk.
type sandbox struct {
	ID        string
	Handler   string
	CreatedAt int64 // ns
	Ready     bool
	IPs       []string // empty with the host's network
	Real      bool     // whether the pod has namespaces for real containers
	Wired     bool     // its IPs are reserved, and it may have a veth pair

	config *runtimeapi.PodSandboxConfig
	pause  *pause // set if the pod's containers share a PID namespace
}

// hostNetwork reports whether the pod uses the host's network.
func (sb *sandbox) hostNetwork() bool {
	return sb.config.GetLinux().GetSecurityContext().GetNamespaceOptions().GetNetwork() == runtimeapi.NamespaceMode_NODE
}

// container is a container as it is stored on disk.
type container struct {
	ID, Sandbox     string
	Image, ImageID  string // reference and id
	LogPath         string
	State           runtimeapi.ContainerState
	CreatedAt       int64 // ns
	StartedAt       int64
	FinishedAt      int64
	ExitCode        int32
	Reason, Message string
	PID             int    // of the container's started process; the supervisor's if the container is real
	Real            bool   // whether the container runs from its image
	StopSignal      string // as the image specifies

	config *runtimeapi.ContainerConfig

	op       sync.Mutex // allows one start, stop or removal at a time; taken before the server's lock
	process  *process.Process
	log      *logfile.Log
	report   run.Report    // of a running real container
	terminal *os.File      // of a real container that has one
	ended    chan struct{} // closed when the supervisor has recorded the end
}

// name returns the container's name for messages.
func (c *container) name() string {
	return c.config.GetLabels()["io.kubernetes.pod.name"] + "/" + c.config.GetMetadata().GetName()
}

// record is the form on disk: our own fields, and the configuration in the CRI's encoding.
type record[T any] struct {
	Fields *T
	Config []byte
}

// store is the state directory.
type store struct{ dir string }

func (s store) sandboxFile(id string) string  { return filepath.Join(s.dir, "sandboxes", id+".json") }
func (s store) containerDir(id string) string { return filepath.Join(s.dir, "containers", id) }

func (s store) saveSandbox(sb *sandbox) error {
	return save(s.sandboxFile(sb.ID), sb, sb.config)
}

func (s store) saveContainer(c *container) error {
	return save(filepath.Join(s.containerDir(c.ID), "record.json"), c, c.config)
}

func (s store) removeSandbox(id string) error   { return removeIfExists(s.sandboxFile(id)) }
func (s store) removeContainer(id string) error { return removeIfExists(s.containerDir(id)) }

// load reads all records. It drops those that it can't read, for example after a power failure: the kubelet then
// creates the container again.
func (s store) load() ([]*sandbox, []*container, error) {
	var sandboxes []*sandbox
	files, err := filepath.Glob(filepath.Join(s.dir, "sandboxes", "*.json"))
	if err != nil {
		return nil, nil, err
	}
	for _, file := range files {
		sb := &sandbox{config: &runtimeapi.PodSandboxConfig{}}
		if err := read(file, sb, sb.config); err != nil {
			if err := removeIfExists(file); err != nil {
				return nil, nil, err
			}
			continue
		}
		sandboxes = append(sandboxes, sb)
	}
	var containers []*container
	dirs, err := filepath.Glob(filepath.Join(s.dir, "containers", "*"))
	if err != nil {
		return nil, nil, err
	}
	for _, dir := range dirs {
		c := &container{config: &runtimeapi.ContainerConfig{}}
		if err := read(filepath.Join(dir, "record.json"), c, c.config); err != nil {
			if err := removeIfExists(dir); err != nil {
				return nil, nil, err
			}
			continue
		}
		containers = append(containers, c)
	}
	return sandboxes, containers, nil
}

// instance returns the random name of this state directory.
func (s store) instance() (string, error) {
	path := filepath.Join(s.dir, "instance")
	data, err := os.ReadFile(path)
	if err == nil && len(data) > 0 {
		return string(data), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("reading the state directory: %w", err)
	}
	id := newID()[:16]
	return id, write(path, []byte(id))
}

// rebooted reports whether the host was restarted since the records were written.
func (s store) rebooted() (bool, error) {
	now, err := process.Boot()
	if err != nil {
		return false, err
	}
	before, err := os.ReadFile(filepath.Join(s.dir, "boot"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return string(before) != now, err
}

func (s store) markBoot() error {
	now, err := process.Boot()
	if err != nil {
		return err
	}
	return write(filepath.Join(s.dir, "boot"), []byte(now))
}

// podCIDRs and images are lists with one entry on each line.
func (s store) podCIDRs() []string { return s.list("pod-cidrs") }
func (s store) images() []string   { return s.list("images") }

func (s store) list(name string) []string {
	data, _ := os.ReadFile(filepath.Join(s.dir, name)) // the file may not exist yet
	return strings.Fields(string(data))
}

func (s store) saveList(name string, entries []string) error {
	return write(filepath.Join(s.dir, name), []byte(strings.Join(entries, "\n")+"\n"))
}

func save[T any](path string, fields *T, config proto.Message) error {
	encoded, err := proto.Marshal(config)
	if err != nil {
		return fmt.Errorf("encoding a record: %w", err)
	}
	data, err := json.Marshal(record[T]{fields, encoded})
	if err != nil {
		return fmt.Errorf("encoding a record: %w", err)
	}
	return write(path, data)
}

func read[T any](path string, fields *T, config proto.Message) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	r := record[T]{Fields: fields}
	if err := json.Unmarshal(data, &r); err != nil {
		return err
	}
	return proto.Unmarshal(r.Config, config)
}

// mkdir creates a directory that only this user can access.
func mkdir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making a directory: %w", err)
	}
	return nil
}

// write replaces a file as a whole: after a crash it holds either the old or the new content.
func write(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("writing a record: %w", err)
	}
	next := path + ".next"
	if err := os.WriteFile(next, data, 0o600); err != nil {
		return fmt.Errorf("writing a record: %w", err)
	}
	if err := os.Rename(next, path); err != nil {
		return fmt.Errorf("writing a record: %w", err)
	}
	return nil
}
