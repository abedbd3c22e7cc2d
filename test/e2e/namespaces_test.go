package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// namespaces returns the namespaces that contain processes of the dock but not this process, each with one of its
// processes.
func namespaces() map[string]string {
	found := map[string]string{}
	for _, p := range processes() {
		links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/ns/*", p.pid))
		for _, link := range links {
			ns, err := namespace(link)
			ours, err2 := namespace("/proc/self/ns/" + filepath.Base(link))
			if err == nil && err2 == nil && ns != ours {
				found[ns] = p.name() + "@" + p.host
			}
		}
	}
	return found
}

// inhabited returns those of these namespaces that still contain a process.
func inhabited(namespaces map[string]string) []string {
	var left []string
	links, _ := filepath.Glob("/proc/[0-9]*/ns/*")
	for _, link := range links {
		ns, err := namespace(link)
		if was, ok := namespaces[ns]; ok && err == nil {
			left = append(left, fmt.Sprintf("namespace %s, which was that of %s, at %s", ns, was, link))
		}
	}
	return left
}

// namespace identifies the namespace that a link in /proc leads to, by its number and its id. The kernel gives the
// number of a namespace that is gone to the next one, maybe of another dock, but never gives an id again. Before Linux
// 6.18, a namespace has only a number.
func namespace(link string) (string, error) {
	fd, err := unix.Open(link, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	number, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return "", err
	}
	id, err := namespaceID(fd)
	if errors.Is(err, unix.ENOTTY) {
		return number, nil
	}
	if err != nil {
		return "", fmt.Errorf("asking for the id of %s: %w", number, err)
	}
	return fmt.Sprintf("%s with id %d", number, id), nil
}

// namespaceID returns the id of an open namespace, or [unix.ENOTTY] if the kernel is older.
func namespaceID(fd int) (id uint64, err error) {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.NS_GET_ID, uintptr(unsafe.Pointer(&id))); errno != 0 {
		return 0, errno
	}
	return id, nil
}

// TestNamespacesThatFollowOneAnother: a namespace that has the number of an earlier one is another namespace.
func TestNamespacesThatFollowOneAnother(t *testing.T) {
	if len(inhabited(namespaces())) == 0 {
		t.Error("no process is in the namespaces of the running dock")
	}
	self, err := os.Open("/proc/self/ns/uts")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	if _, err := namespaceID(int(self.Fd())); errors.Is(err, unix.ENOTTY) {
		t.Skip("namespaces have no ids before Linux 6.18")
	}
	one, err := namespace(self.Name())
	if again, err2 := namespace(self.Name()); err != nil || one != again || err2 != nil {
		t.Errorf("one namespace is %q (%v) and %q (%v)", one, err, again, err2)
	}
	seen := map[string]bool{}
	for range 20 {
		ns := passing(t)
		if seen[ns] {
			t.Fatalf("two namespaces are %s", ns)
		}
		seen[ns] = true
	}
}

// passing starts a process in a namespace of its own, ends it, and returns the namespace.
func passing(t *testing.T) string {
	t.Helper()
	cmd := exec.Command("cat") // ends when its input does
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUTS | syscall.CLONE_NEWUSER}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ns, err := namespace(fmt.Sprintf("/proc/%d/ns/uts", cmd.Process.Pid))
	if err != nil {
		t.Error(err)
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	return ns
}
