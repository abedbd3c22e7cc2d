package rootfs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/dock/testns"
)

func TestMain(m *testing.M) { testns.Main(m) }

// asHost runs TestAsHost in new namespaces, like PID 1 of a host, with root as its root directory. The user namespace
// maps one id, as for an ordinary user.
func asHost(t *testing.T, root, binDir string) string {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestAsHost$", "-test.v")
	cmd.Env = append(os.Environ(), testns.Child, "AS_HOST=1")
	one := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET,
		UidMappings: one, GidMappings: one,
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	shared := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the thread and its mount namespace end with this goroutine
		shared <- func() error {
			if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
				return err
			}
			if err := Isolate(); err != nil {
				return err
			}
			m, err := Inspect("/")
			if err != nil {
				return err
			}
			if err := Share(root, nil, PlanShared(m, binDir)); err != nil {
				return err
			}
			return cmd.Start()
		}()
	}()
	if err := <-shared; err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	_, text, _ := strings.Cut(out.String(), "<<<\n")
	text, _, ok := strings.Cut(text, ">>>")
	if !ok {
		t.Fatalf("no report in\n%s", &out)
	}
	return text
}

// TestAsHost is the child of the other tests.
func TestAsHost(t *testing.T) {
	if os.Getenv("AS_HOST") == "" {
		t.Skip("this is a child of other tests")
	}
	if err := Isolate(); err != nil {
		t.Fatal(err)
	}
	if err := Apply(PlanOwn("1-2-3")); err != nil {
		t.Fatal(err)
	}
	fmt.Println("<<<")
	for _, path := range []string{"/usr/bin", "/opt/capstan/bin", "/opt/capstan/bin/below", "/etc", "/usr/local/bin",
		"/run", "/tmp", "/dev/shm", "/sys/fs/cgroup", "/proc/sys/kernel"} {
		f, err := os.Create(filepath.Join(path, "x"))
		switch {
		case err == nil:
			fmt.Println("can write", path)
			f.Close()
		case errors.Is(err, unix.EROFS):
			fmt.Println("read-only", path)
		default:
			fmt.Println("cannot write", path)
		}
	}
	for _, path := range []string{"/proc/sys/kernel/random/boot_id", "/sys/fs/cgroup/cgroup.controllers",
		"/opt/capstan/bin/below/marker"} {
		data, _ := os.ReadFile(path)
		fmt.Printf("%s: %s\n", path, strings.TrimSpace(string(data)))
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
		fmt.Println("ip_forward:", err)
	}
	if err := os.WriteFile("/dev/null", []byte("x"), 0); err != nil {
		fmt.Println("/dev/null:", err)
	}
	for _, path := range []string{"/usr/bin", "/opt/capstan/bin"} {
		fmt.Printf("remounting %s: %v\n", path, unix.Mount("", path, "", unix.MS_REMOUNT|unix.MS_BIND, ""))
		fmt.Printf("unmounting %s: %v\n", path, unix.Unmount(path, unix.MNT_DETACH))
		err := unix.MountSetattr(-1, path, 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY})
		fmt.Printf("clearing read-only of %s: %v\n", path, err)
		if err := unix.Mount(path, "/tmp", "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			fmt.Printf("binding %s: %v\n", path, err)
			continue
		}
		_, err = os.Create("/tmp/x")
		fmt.Printf("writing through a copy of %s: %v\n", path, errors.Is(err, unix.EROFS))
		fmt.Printf("remounting the copy: %v\n", unix.Mount("", "/tmp", "", unix.MS_REMOUNT|unix.MS_BIND, ""))
		unix.Unmount("/tmp", unix.MNT_DETACH)
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for _, line := range strings.Split(string(mounts), "\n") {
		if f := strings.Fields(line); len(f) > 4 && strings.Contains(f[4], ".old") {
			fmt.Println("the machine's root is still there:", line)
		}
	}
	fmt.Println("pid", os.Getpid())
	fmt.Println(">>>")
}

// binDir returns a directory with another file system mounted in it.
func binDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	below := filepath.Join(dir, "below")
	if err := os.Mkdir(below, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", below, "tmpfs", unix.MS_NOSUID, "size=64k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(below, 0) })
	if err := os.WriteFile(filepath.Join(below, "marker"), []byte("here"), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

const wantHost = `read-only /usr/bin
read-only /opt/capstan/bin
read-only /opt/capstan/bin/below
can write /etc
can write /usr/local/bin
can write /run
can write /tmp
can write /dev/shm
can write /sys/fs/cgroup
cannot write /proc/sys/kernel
/proc/sys/kernel/random/boot_id: 1-2-3
/sys/fs/cgroup/cgroup.controllers: cpuset cpu io memory hugetlb pids rdma freezer devices
/opt/capstan/bin/below/marker: here
remounting /usr/bin: operation not permitted
unmounting /usr/bin: invalid argument
clearing read-only of /usr/bin: operation not permitted
writing through a copy of /usr/bin: true
remounting the copy: operation not permitted
remounting /opt/capstan/bin: operation not permitted
unmounting /opt/capstan/bin: invalid argument
clearing read-only of /opt/capstan/bin: operation not permitted
writing through a copy of /opt/capstan/bin: true
remounting the copy: operation not permitted
pid 1
`

func TestAHostsRoot(t *testing.T) {
	bin := binDir(t)
	if got := asHost(t, skeleton(t), bin); got != wantHost {
		t.Errorf("got\n%s\nwant\n%s", got, wantHost)
	}
	if _, err := os.Stat(filepath.Join(bin, "x")); err == nil {
		t.Error("the host has written into our binaries")
	}
}

// TestAHostsRootUnderAMaskedProc covers a container that masks parts of /proc: there the kernel refuses a new /proc.
func TestAHostsRootUnderAMaskedProc(t *testing.T) {
	if err := unix.Mount("/dev/null", "/proc/cpuinfo", "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount("/proc/cpuinfo", 0)
	if got := asHost(t, skeleton(t), binDir(t)); got != wantHost {
		t.Errorf("got\n%s\nwant\n%s", got, wantHost)
	}
}

func TestReadOnlyOneByOneHoldsBelow(t *testing.T) {
	dir := binDir(t)
	if err := unix.Mount(dir, dir, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	if err := readOnlyOneByOne(dir); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, filepath.Join(dir, "below")} {
		if _, err := os.Create(filepath.Join(path, "x")); !errors.Is(err, unix.EROFS) {
			t.Errorf("writing into %s: %v", path, err)
		}
		var st unix.Statfs_t
		if err := unix.Statfs(filepath.Join(dir, "below"), &st); err != nil || st.Flags&unix.ST_NOSUID == 0 {
			t.Errorf("%s lost its flag nosuid: %v", path, err)
		}
	}
	if err := remount(dir, 0); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "x"), nil, 0o644); err != nil {
		t.Errorf("writing after the mount was made writable again: %v", err)
	}
}
