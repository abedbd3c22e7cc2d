//go:build linux

package line

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/capstan-dev/capstan/test/leftovers"
)

// Environment variables that make this test binary something else.
const (
	insideVariable   = "CAPSTAN_LINE_INSIDE"   // the tests, in their own network namespace
	computerVariable = "CAPSTAN_LINE_COMPUTER" // a computer: the value is the computer's address
)

const (
	planeAddress = "192.0.2.1"
	gateway      = "192.0.2.254"
	bridge       = "lan0"
)

// TestMain runs the tests in their own network namespace, so that nobody else can reach their servers.
func TestMain(m *testing.M) {
	switch {
	case os.Getenv(computerVariable) != "":
		fmt.Fprintln(os.Stderr, "computer:", becomeComputer(os.Getenv(computerVariable)))
		os.Exit(1)
	case os.Getenv(insideVariable) != "":
		if err := plug(bridge, planeAddress, true); err != nil {
			fmt.Fprintln(os.Stderr, "line: making the network:", err)
			os.Exit(1)
		}
		os.Exit(m.Run())
	case os.Geteuid() != 0:
		os.Exit(m.Run()) // the test reports what is missing
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), insideVariable+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		os.Exit(exit.ExitCode())
	case err != nil:
		fmt.Fprintln(os.Stderr, "line:", err)
		os.Exit(1)
	}
}

// plug brings up the loopback interface and a link with an address and a default route. If fresh is set, it first
// creates the link, as a bridge.
func plug(name, address string, fresh bool) error {
	if fresh {
		if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name}}); err != nil {
			return err
		}
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	at, err := netlink.ParseAddr(address + "/24")
	if err != nil {
		return err
	}
	if err := errors.Join(netlink.LinkSetUp(lo), netlink.LinkSetUp(link), netlink.AddrAdd(link, at)); err != nil {
		return err
	}
	return netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: net.ParseIP(gateway)})
}

// becomeComputer turns this process, which has its own namespaces, into a newly installed computer: with its own /etc,
// /opt, /run and /var/lib, and a systemctl that starts the program of a unit. Then it becomes a shell that reads
// commands from its input.
func becomeComputer(address string) error {
	first := make([]byte, 1)
	if _, err := io.ReadFull(os.Stdin, first); err != nil { // the other end has plugged the cable in
		return err
	}
	if err := plug("eth0", address, false); err != nil {
		return fmt.Errorf("the network: %w", err)
	}
	name := "computer-" + address[strings.LastIndex(address, ".")+1:]
	if err := syscall.Sethostname([]byte(name)); err != nil {
		return err
	}
	script := `set -e
mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs none /mnt
cp -a /etc /mnt/etc
mount --bind /mnt/etc /etc
for d in /opt /run /var/lib; do mount -t tmpfs none $d; done
echo 0123456789abcdef0123456789ab000` + address[len(address)-1:] + ` > /etc/machine-id
mkdir -p /etc/systemd/system
cat > /mnt/systemctl <<'END'
#!/bin/sh
echo "$*" >> /mnt/systemctl.log
unit=/etc/systemd/system/$2
case "$1" in restart)
	test -e /mnt/agent.pid && kill $(cat /mnt/agent.pid)
	setsid $(sed -n 's/^ExecStart=//p' $unit) > /mnt/agent.log 2>&1 < /dev/null &
	echo $! > /mnt/agent.pid ;;
esac
END
chmod 755 /mnt/systemctl
real=$(command -v systemctl) && mount --bind /mnt/systemctl "$real" || ln -s /mnt/systemctl /usr/local/bin/systemctl
echo installed
exec sh
`
	return syscall.Exec("/bin/sh", []string{"sh", "-c", script}, os.Environ())
}

// computer is a computer in the network of the plane.
type computer struct {
	t   *testing.T
	pid int
	in  io.Writer

	mu  sync.Mutex
	out bytes.Buffer
}

// newComputer starts a computer whose address ends with this byte.
func newComputer(t *testing.T, last int) *computer {
	t.Helper()
	c := &computer{t: t}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=192.0.2.%d", computerVariable, last))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Cloneflags: syscall.CLONE_NEWNET |
		syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = c, c
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // killing its first process kills all others
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("computer %d printed:\n%s", last, c.printed())
		}
	})
	c.pid, c.in = cmd.Process.Pid, in
	near := fmt.Sprintf("port%d", last)
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: near}, PeerName: "eth0",
		PeerNamespace: netlink.NsPid(c.pid)}); err != nil {
		t.Fatal(err)
	}
	port, err := netlink.LinkByName(near)
	if err != nil {
		t.Fatal(err)
	}
	lan, err := netlink.LinkByName(bridge)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(netlink.LinkSetMaster(port, lan), netlink.LinkSetUp(port)); err != nil {
		t.Fatal(err)
	}
	c.types("\n")
	c.waits("installed")
	return c
}

// Write receives the computer's output.
func (c *computer) Write(data []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.Write(data)
}

func (c *computer) printed() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.String()
}

// types types text into the computer's shell.
func (c *computer) types(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, text); err != nil {
		c.t.Fatal(err)
	}
}

// waits waits until the computer has printed text.
func (c *computer) waits(text string) {
	c.t.Helper()
	eventually(c.t, "the computer prints "+text, func() bool { return strings.Contains(c.printed(), text) })
}

// runs runs a line on the computer, and returns what it prints and whether it succeeds.
func (c *computer) runs(line string) (printed string, ok bool) {
	c.t.Helper()
	before := len(c.printed())
	c.types(line + "\necho code=$?.\n")
	eventually(c.t, "the line ends", func() bool { return strings.Contains(c.printed()[before:], "code=") })
	eventually(c.t, "the line has ended", func() bool { return strings.HasSuffix(c.printed(), ".\n") })
	printed = c.printed()[before:]
	return printed, strings.Contains(printed, "code=0.")
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !condition(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within two minutes: %s", what)
		}
	}
}

// plane is a management plane of the built binaries.
type plane struct {
	t       *testing.T
	capstan string
	home    string
}

// newPlane returns a plane that does not run yet. At the end of the test, nothing of it may be left.
func newPlane(t *testing.T) *plane {
	t.Helper()
	capstan, err := filepath.Abs("../../../bin/capstan")
	if err == nil {
		_, err = os.Stat(capstan)
	}
	if err != nil {
		t.Fatalf("bin/capstan is not built: run make build: %v", err)
	}
	home, err := os.MkdirTemp("", "capstan-line-") // the path of t.TempDir is too long for a unix socket
	if err != nil {
		t.Fatal(err)
	}
	p := &plane{t: t, capstan: capstan, home: home}
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(home, "plane", "logs", "plane.log"))
			t.Logf("the plane's log ends:\n%s", log[max(0, len(log)-4000):])
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if out, err := p.command(ctx, "down", "--delete").CombinedOutput(); err != nil {
			t.Errorf("capstan down: %v\n%s", err, out)
		}
		for _, left := range leftovers.Of(home) {
			t.Errorf("left behind: %s", left)
		}
	})
	return p
}

func (p *plane) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, p.capstan, args...)
	cmd.Env = append(os.Environ(), "CAPSTAN_HOME="+p.home)
	return cmd
}

// run runs capstan and returns what it prints to stdout.
func (p *plane) run(args ...string) string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 5*time.Minute)
	defer cancel()
	cmd := p.command(ctx, args...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		p.t.Fatalf("capstan %s: %v\n%s%s", strings.Join(args, " "), err, &out, &errOut)
	}
	return out.String()
}
