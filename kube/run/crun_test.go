//go:build linux

package run

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	profiles "github.com/moby/profiles/seccomp"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// ttyGroup is the group of terminals, which a host with one id lacks.
const ttyGroup = "gid=5"

// crun is the C runtime that starts of containers are compared with, found in PATH.
type crun struct {
	w       *world
	program string
	state   string
	made    int
}

// newCrun returns nil and the reason if there is no crun.
func newCrun(w *world) (*crun, string) {
	program, err := exec.LookPath("crun")
	if err != nil {
		return nil, "not compared: crun is not installed"
	}
	// crun refuses machines that have both versions of control groups, even if it shall use none: hide the second.
	const second = "/sys/fs/cgroup/unified"
	if _, err := os.Stat(second); err == nil {
		w.must(unix.Mount("none", second, "tmpfs", 0, ""))
		w.t.Cleanup(func() { w.must(unix.Unmount(second, 0)) })
	}
	return &crun{w: w, program: program, state: filepath.Join(w.dir, "crun")}, ""
}

// run runs a container with the features of a Spec to its end, on an overlay of the same layers, and returns how long
// that took. It takes no control groups, as the Spec has none.
func (c *crun) run(b *testing.B, spec *Spec) time.Duration {
	b.Helper()
	c.made++
	bundle := filepath.Join(c.w.dir, fmt.Sprintf("bundle-%d", c.made))
	for _, dir := range []string{"rootfs", "upper", "work"} {
		c.w.must(os.MkdirAll(filepath.Join(bundle, dir), 0o755))
	}
	began := time.Now()
	c.w.must(c.w.writeOCI(bundle, spec))
	rootfs := filepath.Join(bundle, "rootfs")
	c.w.must(unix.Mount("overlay", rootfs, "overlay", 0, fmt.Sprintf("userxattr,lowerdir=%s,upperdir=%s,workdir=%s",
		strings.Join(spec.Layers, ":"), filepath.Join(bundle, "upper"), filepath.Join(bundle, "work"))))
	cmd := exec.Command(c.program, "--root", c.state, "--cgroup-manager", "disabled", "run", "--bundle", bundle,
		filepath.Base(bundle))
	out, err := cmd.CombinedOutput()
	took := time.Since(began)
	c.w.must(unix.Unmount(rootfs, 0))
	if err != nil {
		b.Fatalf("crun: %v: %s", err, out)
	}
	return took
}

// writeOCI writes a Spec as the config.json of a bundle. A Spec with a filter means the default profile.
func (w *world) writeOCI(bundle string, spec *Spec) error {
	bounding := spec.Process.Capabilities.Bounding
	terminals := []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"}
	if !w.one {
		terminals = append(terminals, ttyGroup)
	}
	oci := &specs.Spec{
		Version:  "1.0.0",
		Hostname: spec.Hostname,
		Root:     &specs.Root{Path: "rootfs"},
		Process: &specs.Process{
			Args: spec.Process.Args, Env: spec.Process.Env, Cwd: "/", NoNewPrivileges: spec.Process.NoNewPrivileges,
			Capabilities: &specs.LinuxCapabilities{Bounding: bounding, Effective: bounding, Permitted: bounding},
		},
		Mounts: []specs.Mount{
			{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
			{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev", "ro"}},
			{Destination: "/dev", Type: "tmpfs", Source: "tmpfs",
				Options: []string{"nosuid", "strictatime", "mode=755", "size=65536k"}},
			{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: terminals},
			{Destination: "/dev/shm", Type: "tmpfs", Source: "shm",
				Options: []string{"nosuid", "noexec", "nodev", "mode=1777", "size=65536k"}},
			{Destination: "/dev/mqueue", Type: "mqueue", Source: "mqueue", Options: []string{"nosuid", "noexec", "nodev"}},
		},
		Linux: &specs.Linux{
			MaskedPaths: spec.Masked, ReadonlyPaths: spec.ReadOnly,
			Namespaces: []specs.LinuxNamespace{
				{Type: specs.MountNamespace}, {Type: specs.PIDNamespace}, {Type: specs.NetworkNamespace},
				{Type: specs.IPCNamespace}, {Type: specs.UTSNamespace},
			},
		},
	}
	if len(spec.Process.Seccomp) > 0 {
		var err error
		if oci.Linux.Seccomp, err = profiles.GetDefaultProfile(oci); err != nil {
			return err
		}
	}
	data, err := json.Marshal(oci)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(bundle, "config.json"), data, 0o644)
}
