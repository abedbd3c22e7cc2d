package machine

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

//go:embed setup.sh
var setupScript []byte

//go:embed setup.service
var setupUnit []byte

// outline describes a machine. The process that becomes the machine gets it in its environment.
type outline struct {
	Name    string
	Address string // with its prefix length
	Gateway string
	Root    string // the root that it starts from
	Dir     string // the directory with its data
	Groups  []hierarchy
}

// MarshalJSON encodes a hierarchy for the process that becomes a machine.
func (h hierarchy) MarshalJSON() ([]byte, error) {
	return json.Marshal([3]string{h.path, h.kind, h.options})
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (h *hierarchy) UnmarshalJSON(data []byte) error {
	var fields [3]string
	err := json.Unmarshal(data, &fields)
	h.path, h.kind, h.options = fields[0], fields[1], fields[2]
	return err
}

// become turns this process, which has its own network and mounts, into the supervisor of a machine.
func become(text string) error {
	var o outline
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	if _, err := io.ReadFull(os.Stdin, make([]byte, 1)); err != nil { // it arrives when cable and cgroup exist
		return err
	}
	if err := o.plug(); err != nil {
		return fmt.Errorf("the network: %w", err)
	}
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("a cgroup namespace: %w", err)
	}
	if err := o.mounts(); err != nil {
		return err
	}
	if err := o.settings(); err != nil {
		return fmt.Errorf("settings of the machine: %w", err)
	}
	unified := "0"
	if len(o.Groups) == 1 && o.Groups[0].kind == "cgroup2" {
		unified = "1"
	}
	nspawn, err := exec.LookPath("systemd-nspawn")
	if err != nil {
		return err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	if err := unix.Dup3(int(null.Fd()), 0, 0); err != nil {
		return err
	}
	return syscall.Exec(nspawn, []string{
		"systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--console=pipe", "--machine=" + o.Name,
		"--capability=all", "--drop-capability=CAP_SYS_MODULE,CAP_SYS_TIME", "--system-call-filter=@keyring",
		"--resolv-conf=off", "--timezone=off", "--bind=" + o.path("lib") + ":/var/lib", "-D", o.path("root"),
		"--boot", "systemd.journald.forward_to_console=1", "systemd.log_target=console", "systemd.show_status=0",
		"SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1", // Debian 13's systemd needs it for version 1; others ignore it
	}, append(os.Environ(), "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY="+unified, "SYSTEMD_NSPAWN_API_VFS_WRITABLE=1"))
}

func (o *outline) path(elements ...string) string {
	return filepath.Join(append([]string{o.Dir}, elements...)...)
}

// plug brings up the machine's network.
func (o *outline) plug() error {
	at, err := netlink.ParseAddr(o.Address)
	if err != nil {
		return err
	}
	for _, name := range []string{"lo", "eth0"} {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		if name == "eth0" {
			if err := netlink.AddrAdd(link, at); err != nil {
				return err
			}
		}
		if err := netlink.LinkSetUp(link); err != nil {
			return err
		}
	}
	return netlink.RouteAdd(&netlink.Route{Gw: net.ParseIP(o.Gateway)})
}

// mounts mounts the machine's file systems. It mounts the cgroups again, so that the machine's group is their root.
func (o *outline) mounts() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mounting the processes of the namespace: %w", err)
	}
	if err := unix.Mount("tmpfs", "/run", "tmpfs", 0, "mode=755"); err != nil {
		return err
	}
	if err := unix.Unmount("/sys/fs/cgroup", unix.MNT_DETACH); err != nil {
		return err
	}
	if o.Groups[0].path != "/sys/fs/cgroup" {
		if err := unix.Mount("tmpfs", "/sys/fs/cgroup", "tmpfs", 0, "mode=755"); err != nil {
			return err
		}
	}
	for _, h := range o.Groups {
		if err := os.MkdirAll(h.path, 0o755); err != nil {
			return err
		}
		if err := unix.Mount("cgroup", h.path, h.kind, 0, h.options); err != nil {
			return fmt.Errorf("mounting %s: %w", h.path, err)
		}
	}
	layers := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", o.Root, o.path("upper"), o.path("work"))
	if err := unix.Mount("overlay", o.path("root"), "overlay", 0, layers); err != nil {
		return fmt.Errorf("mounting the root: %w", err)
	}
	return nil
}

// settings writes a new machine's own settings.
func (o *outline) settings() error {
	if _, err := os.Stat(o.path("root", "etc/systemd/system/machine-setup.service")); err == nil {
		return nil
	}
	id := sha256.Sum256([]byte(o.Dir + o.Name))
	address, _, _ := strings.Cut(o.Address, "/")
	var errs []error
	for path, text := range map[string]string{
		"etc/hostname":                             o.Name + "\n",
		"etc/hosts":                                "127.0.0.1 localhost\n" + address + " " + o.Name + "\n",
		"etc/resolv.conf":                          "nameserver 192.0.2.253\n",
		"etc/machine-id":                           hex.EncodeToString(id[:16]) + "\n",
		"etc/default/kubelet":                      kubeletDefaults(o.Groups),
		"usr/local/lib/machine-setup":              string(setupScript),
		"etc/systemd/system/machine-setup.service": string(setupUnit),
	} {
		path = o.path("root", path)
		_ = os.Remove(path) // resolv.conf may be a link
		errs = append(errs, os.WriteFile(path, []byte(text), 0o644))
	}
	wants := o.path("root", "etc/systemd/system/sysinit.target.wants")
	errs = append(errs, os.MkdirAll(wants, 0o755),
		os.Symlink("/etc/systemd/system/machine-setup.service", filepath.Join(wants, "machine-setup.service")))
	if out, err := exec.Command("cp", "-a", filepath.Join(o.Root, "var/lib")+"/.",
		o.path("lib")).CombinedOutput(); err != nil {
		errs = append(errs, fmt.Errorf("%w: %s", err, out))
	}
	return errors.Join(errs...)
}

// kubeletDefaults returns the content of /etc/default/kubelet, which the kubelet's unit reads. Kubernetes is dropping
// cgroups of version 1, so a kubelet starts with them only if it is configured to, and these tests also run on kernels
// that have only version 1.
func kubeletDefaults(groups []hierarchy) string {
	for _, h := range groups {
		if h.kind == "cgroup" {
			return "KUBELET_EXTRA_ARGS=--fail-cgroupv1=false\n"
		}
	}
	return ""
}
