package cri

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// podSpaces is the directory of a pod with real containers. It holds what they share: namespaces (as mounts, which need
// no process), /dev/shm, /dev/mqueue, and the files that every container gets.
type podSpaces struct{ dir string }

func (p podSpaces) path(name string) string { return filepath.Join(p.dir, name) }

// Names in the directory.
const (
	shmName      = "shm"
	mqueueName   = "mqueue"
	hostnameFile = "hostname"
	resolvFile   = "resolv.conf"
)

// shmSize is the size of a pod's /dev/shm, as in other runtimes.
const shmSize = "size=65536k"

// podNamespaces maps each namespace that a pod may have, by its name in /proc, to its clone flag.
var podNamespaces = map[string]int{"net": unix.CLONE_NEWNET, "ipc": unix.CLONE_NEWIPC, "uts": unix.CLONE_NEWUTS}

// own returns the kinds of namespaces that a pod has for itself. A pod with the host's network also has the host's
// name.
func own(options *runtimeapi.NamespaceOption) []string {
	var names []string
	if options.GetNetwork() != runtimeapi.NamespaceMode_NODE {
		names = append(names, "net", "uts")
	}
	if options.GetIpc() != runtimeapi.NamespaceMode_NODE {
		names = append(names, "ipc")
	}
	return names
}

// make creates the directory, after removing what an earlier attempt left.
func (p podSpaces) make(config *runtimeapi.PodSandboxConfig) (err error) {
	if err := p.remove(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.remove())
		}
	}()
	if err := os.MkdirAll(p.dir, 0o711); err != nil {
		return fmt.Errorf("making the pod's directory: %w", err)
	}
	files := map[string]string{resolvFile: resolvConf(config.GetDnsConfig())}
	if config.Hostname != "" {
		files[hostnameFile] = config.Hostname + "\n"
	}
	for name, text := range files {
		if err := os.WriteFile(p.path(name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("writing the pod's %s: %w", name, err)
		}
	}
	names := own(config.GetLinux().GetSecurityContext().GetNamespaceOptions())
	failed := make(chan error, 1)
	done := make(chan struct{})
	go func() {
		runtime.LockOSThread() // never unlock: the thread exits with its namespaces
		failed <- p.makeNamespaces(names, config.Hostname)
		<-done
	}()
	defer close(done)
	return <-failed
}

// makeNamespaces creates namespaces of this thread and mounts them in the host's own mount namespace.
func (p podSpaces) makeNamespaces(names []string, hostname string) error {
	flags := 0
	for _, name := range names {
		flags |= podNamespaces[name]
	}
	if err := unix.Unshare(flags); err != nil {
		return fmt.Errorf("making the pod's namespaces: %w", err)
	}
	if slices.Contains(names, "uts") && hostname != "" {
		if err := unix.Sethostname([]byte(hostname)); err != nil {
			return fmt.Errorf("setting the pod's host name: %w", err)
		}
	}
	if slices.Contains(names, "net") {
		if err := loopbackUp(); err != nil {
			return err
		}
		// As in other runtimes, a program that is not root may listen on port 80. A kernel that refuses this keeps its
		// default.
		os.WriteFile("/proc/sys/net/ipv4/ip_unprivileged_port_start", []byte("0"), 0)
	}
	task := fmt.Sprintf("/proc/self/task/%d/ns/", unix.Gettid())
	for _, name := range names {
		if err := os.WriteFile(p.path(name), nil, 0o600); err != nil {
			return fmt.Errorf("keeping the pod's namespaces: %w", err)
		}
		if err := unix.Mount(task+name, p.path(name), "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("keeping the pod's %s namespace: %w", name, err)
		}
	}
	if !slices.Contains(names, "ipc") {
		return nil
	}
	for name, kind := range map[string]string{shmName: "tmpfs", mqueueName: "mqueue"} {
		data := ""
		if name == shmName {
			data = "mode=1777," + shmSize
		}
		if err := os.Mkdir(p.path(name), 0o755); err != nil {
			return fmt.Errorf("making the pod's %s: %w", name, err)
		}
		if err := unix.Mount(kind, p.path(name), kind, unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, data); err != nil {
			return fmt.Errorf("mounting the pod's %s: %w", name, err)
		}
	}
	return nil
}

// loopbackUp brings up the loopback interface of this thread's network.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("bringing up the pod's loopback interface: %w", err)
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return fmt.Errorf("bringing up the pod's loopback interface: %w", err)
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request); err != nil {
		return fmt.Errorf("bringing up the pod's loopback interface: %w", err)
	}
	return nil
}

// remove unmounts everything and removes the directory. It may be called again.
func (p podSpaces) remove() error {
	for _, name := range []string{"net", "ipc", "uts", shmName, mqueueName} {
		err := unix.Unmount(p.path(name), unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("unmounting the pod's %s: %w", name, err)
		}
	}
	return removeIfExists(p.dir)
}

// complete reports whether the namespaces still exist: a restart of the host removes them.
func (p podSpaces) complete(options *runtimeapi.NamespaceOption) bool {
	for _, name := range own(options) {
		var st unix.Statfs_t
		if err := unix.Statfs(p.path(name), &st); err != nil || st.Type != unix.NSFS_MAGIC {
			return false
		}
	}
	return true
}

// namespace returns the path of the pod's namespace for its containers to join. If the pod has none of its own, it
// returns host.
func (p podSpaces) namespace(name string, host string) string {
	if _, err := os.Stat(p.path(name)); errors.Is(err, fs.ErrNotExist) {
		return host
	}
	return p.path(name)
}

// resolvConf returns the pod's /etc/resolv.conf. Without DNS settings it returns the host's.
func resolvConf(dns *runtimeapi.DNSConfig) string {
	var text strings.Builder
	if len(dns.GetSearches()) > 0 {
		fmt.Fprintf(&text, "search %s\n", strings.Join(dns.Searches, " "))
	}
	for _, server := range dns.GetServers() {
		if _, err := netip.ParseAddr(server); err == nil {
			fmt.Fprintf(&text, "nameserver %s\n", server)
		}
	}
	if len(dns.GetOptions()) > 0 {
		fmt.Fprintf(&text, "options %s\n", strings.Join(dns.Options, " "))
	}
	if text.Len() == 0 {
		host, _ := os.ReadFile("/etc/resolv.conf") // may be missing
		return string(host)
	}
	return text.String()
}
