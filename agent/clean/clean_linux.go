// Package clean removes everything that a machine left on a host, and proves that nothing is left.
//
// Cleaning may be repeated: after a crash, and after somebody has removed by hand what cleaning could not. The proof
// does not rely on what cleaning did. It examines the host itself: processes, mounts, files, network interfaces,
// listening sockets and packet filter rules.
package clean

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"

	"github.com/capstan-dev/capstan/agent/apply"
	"github.com/capstan-dev/capstan/agent/bootstrap"
	"github.com/capstan-dev/capstan/agent/bundle"
	"github.com/capstan-dev/capstan/agent/command"
	"github.com/capstan-dev/capstan/agent/journal"
	"github.com/capstan-dev/capstan/agent/undo"
	"github.com/capstan-dev/capstan/internal/failpoint"
	"github.com/capstan-dev/capstan/internal/proc"
	"github.com/capstan-dev/capstan/internal/regular"
)

// LogPath is where the output of cleaning goes; it is deleted when the host is proved clean.
const LogPath = "/var/log/capstan/clean.log"

// limit bounds one cleaning.
const limit = 10 * time.Minute

// directories are the directories that cleaning deletes with all their contents.
var directories = []string{
	"/etc/kubernetes", "/var/lib/etcd", "/var/lib/kubelet", "/var/lib/capstan/cri",
	"/etc/cni/net.d", "/var/lib/cni", "/run/flannel", "/var/lib/calico", "/run/calico", "/run/cilium",
	"/run/kubeadm", "/run/cluster-api", "/run/capstan/command", "/var/log/pods", "/var/log/containers",
}

// runtimeDirectories are the directories of containerd. They are deleted only if containerd came with the machine: a
// host may have containers of its own.
var runtimeDirectories = []string{"/var/lib/containerd", "/run/containerd", "/run/cni"}

// directories returns the directories to delete for this machine.
func (c *Cleaner) directories() []string {
	if len(c.Journal.Notes(bootstrap.KeyBundle)) > 0 {
		return slices.Concat(directories, runtimeDirectories)
	}
	return directories
}

// mountPrefixes are the prefixes of the mount points that a machine uses. The host may have network namespaces and
// containers of its own.
var mountPrefixes = []string{
	"/var/lib/kubelet/", "/var/lib/capstan/cri/", "/etc/kubernetes/", "/var/lib/etcd/", "/run/netns/cni-",
	"/run/containerd/io.containerd.runtime.v2.task/k8s.io/", "/run/containerd/io.containerd.grpc.v1.cri/",
}

// units are the services of a machine.
var units = []string{"kubelet", "containerd"}

// Cleaner cleans the host after one claim.
type Cleaner struct {
	// Journal is the journal of the claim.
	Journal *journal.Journal
	// Log receives the output of all commands.
	Log *command.Log
	// BundlesDir is the directory of the bundles.
	BundlesDir string
	// Comparison compares the host with its state before the claim; nil means that there is no comparison.
	Comparison *Comparison
	// Older lists the leftovers of older claims, which count as leftovers of this one.
	Older []string
}

// step is one step of cleaning.
type step struct {
	name string
	run  func(context.Context) error
}

// Run cleans the host and records the result in the journal: what could not be removed, or nothing if the host is
// proved clean. An error means that there is no result: ctx ended, the host can't be examined, or the journal can't be
// written.
func (c *Cleaner) Run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for _, s := range []step{
		{"end-commands", c.endCommands},
		{"thaw", c.thaw},
		{"kubeadm-reset", c.reset},
		{"stop-services", c.stopServices},
		{"end-processes", c.endProcesses},
		{"stop-slice", c.stopSlice},
		{"unmount", c.unmount},
		{"wipe-disks", c.wipeDisks},
		{"restore-files", c.restoreFiles},
		{"delete-directories", c.deleteDirectories},
		{"delete-users", c.deleteUsers},
		{"network", c.network},
		{"sysctls", c.sysctls},
	} {
		c.Log.Printf("cleaning: %s", s.name)
		// If a failure here matters, the proof finds its consequences.
		if err := s.run(ctx); err != nil {
			c.Log.Printf("%s: %v", s.name, err)
		}
		failpoint.Hit("cleaned " + s.name)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	leftovers, err := c.Leftovers(ctx)
	if err != nil {
		return err
	}
	if len(leftovers) == 0 {
		// Delete the copies of the host's and the machine's files, including the machine's keys. The proof has checked that
		// all files were put back.
		if err := c.Journal.Strip(); err != nil {
			leftovers = bound([]string{"path " + c.Journal.Dir() + ": " + err.Error()})
		}
		failpoint.Hit("stripped")
	}
	for _, l := range leftovers {
		c.Log.Printf("left: %s", l)
	}
	if len(leftovers) == 0 {
		c.Log.Close()
		for _, log := range []string{bootstrap.LogPath, LogPath} {
			_ = os.Remove(log)
			_ = os.Remove(log + ".1")
		}
	}
	failpoint.Hit("proved")
	return c.Journal.Clean(leftovers)
}

// endCommands stops the processes that commands of the bootstrap started.
func (c *Cleaner) endCommands(ctx context.Context) error {
	_, err := proc.End(ctx, command.Marked, time.Second, 20*time.Second)
	return err
}

// reset lets kubeadm undo its changes. On a control plane, kubeadm also removes the host's etcd member from the
// cluster.
func (c *Cleaner) reset(ctx context.Context) error {
	if !exists("/etc/kubernetes/kubelet.conf") && !exists("/etc/kubernetes/manifests") {
		return nil
	}
	return bootstrap.Reset(ctx, c.Log, "")
}

func (c *Cleaner) stopServices(ctx context.Context) error {
	var errs []error
	enabled := c.Journal.Notes(bootstrap.KeyEnabled)
	for _, unit := range units {
		errs = append(errs, c.run(ctx, "systemctl", "stop", unit))
		if !slices.Contains(enabled, unit) {
			errs = append(errs, c.run(ctx, "systemctl", "disable", unit))
		}
	}
	return errors.Join(errs...)
}

// endProcesses stops the machine's remaining processes, and then unlinks its programs.
func (c *Cleaner) endProcesses(ctx context.Context) error {
	frozen := c.thaw(ctx) // again, because the end of the container runtime may have killed runc
	_, err := proc.End(ctx, c.ofMachine, 5*time.Second, 30*time.Second)
	return errors.Join(frozen, err, bundle.Remove(c.BundlesDir, bundle.LinkDir),
		bundle.Remove(c.BundlesDir, bundle.CNIDir))
}

// stopSlice stops the slice of pods, which systemd creates for kubelet and runc. That removes its scopes, their control
// groups, and their units in /run/systemd/transient. systemd keeps failed units until it is told to forget them.
func (c *Cleaner) stopSlice(ctx context.Context) error {
	return errors.Join(c.run(ctx, "systemctl", "stop", "kubepods.slice"),
		c.run(ctx, "systemctl", "reset-failed", "kubepods*.slice", "cri-containerd-*.scope"))
}

// programs are the programs of a node, in addition to those of a bundle.
var programs = map[string]bool{
	"kubelet": true, "kubeadm": true, "etcd": true, "kube-apiserver": true, "kube-controller-manager": true,
	"kube-scheduler": true,
	"kube-proxy":     true, "capstan-net": true, "containerd-shim-runc-v2": true, "containerd-shim": true,
	"flanneld": true, "coredns": true,
}

// ofMachine reports whether a process belongs to the machine, because it runs one of the machine's programs or because
// it runs in a pod.
func (c *Cleaner) ofMachine(p proc.Process) bool {
	if command.Marked(p) {
		return true
	}
	exe := p.Exe()
	if exe == "" {
		return false // a thread of the kernel
	}
	return strings.HasPrefix(exe, c.BundlesDir+"/") || programs[filepath.Base(exe)] || p.InCgroup("/kubepods")
}

// restoreFiles restores files as they were before the bootstrap.
func (c *Cleaner) restoreFiles(ctx context.Context) error {
	err := errors.Join(c.undo().Restore(), bootstrap.ForgetName())
	if len(c.Journal.Notes(bootstrap.KeyBundle)) > 0 {
		err = errors.Join(err, c.run(ctx, "systemctl", "daemon-reload")) // the bundle's units are gone
	}
	return err
}

func (c *Cleaner) undo() *undo.Keeper {
	return &undo.Keeper{Dir: filepath.Join(c.Journal.Dir(), bootstrap.UndoDir), Notes: c.Journal}
}

// deleteDirectories deletes the directories of a machine. It leaves a directory below which something is still mounted:
// that may be somebody's data.
func (c *Cleaner) deleteDirectories(context.Context) error {
	var errs []error
	for _, directory := range c.directories() {
		errs = append(errs, deleteDirectory(directory))
	}
	if len(c.Journal.Notes(bootstrap.KeyBundle)) > 0 {
		_ = os.Remove("/etc/cni") // the runtime created it; it stays if it is not empty
	}
	return errors.Join(errs...)
}

func deleteDirectory(directory string) error {
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(directory))
	if err != nil {
		return err
	}
	for _, m := range mounts {
		if m.Mountpoint != directory {
			return errors.New("not deleting " + directory + ": something is mounted at " + m.Mountpoint)
		}
	}
	if len(mounts) == 0 {
		return os.RemoveAll(directory)
	}
	// This is a mount point of the host itself, such as a disk for etcd: delete only its contents.
	entries, err := os.ReadDir(directory)
	if err != nil {
		return err
	}
	var errs []error
	for _, entry := range entries {
		if entry.Name() != "lost+found" {
			errs = append(errs, os.RemoveAll(filepath.Join(directory, entry.Name())))
		}
	}
	return errors.Join(errs...)
}

func (c *Cleaner) deleteUsers(ctx context.Context) error {
	var errs []error
	users := c.Journal.Notes(apply.KeyUser)
	for i := len(users) - 1; i >= 0; i-- {
		if known("/etc/passwd", users[i]) {
			errs = append(errs, c.run(ctx, "userdel", "--remove", users[i]))
		}
	}
	groups := c.Journal.Notes(apply.KeyGroup)
	for i := len(groups) - 1; i >= 0; i-- {
		if known("/etc/group", groups[i]) {
			errs = append(errs, c.run(ctx, "groupdel", groups[i]))
		}
	}
	return errors.Join(errs...)
}

// known reports whether a file in the format of /etc/passwd has an entry with this name.
func known(path, name string) bool {
	data, err := regular.Read(path, 16<<20)
	return err == nil && strings.Contains("\n"+string(data), "\n"+name+":")
}

func (c *Cleaner) run(ctx context.Context, args ...string) error {
	c.Log.Printf("+ %s", strings.Join(args, " "))
	return command.Command{Args: args, Output: c.Log}.Run(ctx)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
