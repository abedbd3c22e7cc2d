//go:build linux

package run

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	profiles "github.com/moby/profiles/seccomp"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// ttyGroup is the group of terminals, which a host with one id lacks.
const ttyGroup = "gid=5"

// crun is the C runtime, found in PATH, with which container starts are compared.
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
	// crun refuses machines that have both versions of control groups, even if it must use neither: hide version 2.
	const second = "/sys/fs/cgroup/unified"
	if _, err := os.Stat(second); err == nil {
		w.must(unix.Mount("none", second, "tmpfs", 0, ""))
		w.t.Cleanup(func() { w.must(unix.Unmount(second, 0)) })
	}
	return &crun{w: w, program: program, state: filepath.Join(w.dir, "crun")}, ""
}

// start runs a container with the features of a Spec on an overlay of the same layers, and returns how long it took
// until its program wrote something. It uses no control groups, because the Spec has none.
func (c *crun) start(spec *Spec, filtered bool) time.Duration {
	c.w.t.Helper()
	c.made++
	bundle := filepath.Join(c.w.dir, fmt.Sprintf("bundle-%d", c.made))
	for _, dir := range []string{"rootfs", "upper", "work"} {
		c.w.must(os.MkdirAll(filepath.Join(bundle, dir), 0o755))
	}
	rootfs := filepath.Join(bundle, "rootfs")
	cmd := exec.Command(c.program, "--root", c.state, "--cgroup-manager", "disabled", "run", "--bundle", bundle,
		filepath.Base(bundle))
	took := c.w.untilItSpeaks(cmd, func() {
		c.w.must(c.w.writeOCI(bundle, spec, filtered))
		c.w.must(unix.Mount("overlay", rootfs, "overlay", 0, fmt.Sprintf("userxattr,lowerdir=%s,upperdir=%s,workdir=%s",
			strings.Join(spec.Layers, ":"), filepath.Join(bundle, "upper"), filepath.Join(bundle, "work"))))
		c.w.must(cmd.Start())
	})
	c.w.must(unix.Unmount(rootfs, 0))
	return took
}

// untilItSpeaks starts a command and returns how long it took until the command's container wrote something. Then it
// waits for the command to exit.
func (w *world) untilItSpeaks(cmd *exec.Cmd, start func()) time.Duration {
	w.t.Helper()
	out, write, err := os.Pipe()
	w.must(err)
	defer out.Close()
	cmd.Stdout, cmd.Stderr = write, write
	began := time.Now()
	start()
	write.Close()
	first := make([]byte, 1)
	_, err = io.ReadFull(out, first)
	took := time.Since(began)
	w.must(err)
	rest, err := io.ReadAll(out)
	w.must(err)
	if err := cmd.Wait(); err != nil || string(first)+string(rest) != hello+"\n" {
		w.t.Fatalf("%s: %v: %s%s", cmd, err, first, rest)
	}
	return took
}

// writeOCI writes a Spec as the config.json of a bundle, with the default profile if system calls are filtered.
func (w *world) writeOCI(bundle string, spec *Spec, filtered bool) error {
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
	if filtered {
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
