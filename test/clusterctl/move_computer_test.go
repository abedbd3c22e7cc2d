//go:build linux

package clusterctl

import (
	"bufio"
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
	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/agent"
	"github.com/capstan-dev/capstan/internal/failpoint"
)

// The roles of the test binary inside a computer: its first process, the machine on it, the agent.
const (
	firstProcess = "capstan-test-computer"
	nodeProcess  = "kubelet"
	agentProcess = "capstan-agent"
)

func init() {
	switch filepath.Base(os.Args[0]) {
	case firstProcess:
		fail(beComputer(os.Args[1], os.Args[2:]))
	case nodeProcess:
		fail(serve("unix", "/run/node.sock", func(conn net.Conn) { _, _ = conn.Write([]byte("here")) }))
	case agentProcess:
		os.Exit(agent.Main("live", os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, os.Args[0], err)
	os.Exit(1)
}

// serve calls the function do for each connection, forever.
func serve(network, address string, do func(net.Conn)) error {
	l, err := net.Listen(network, address)
	if err != nil {
		return err
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go func() { defer conn.Close(); do(conn) }()
	}
}

// relay copies bytes between a connection and an address, in both directions, until one side closes.
func relay(conn net.Conn, network, address string) {
	other, err := net.Dial(network, address)
	if err != nil {
		return
	}
	defer other.Close()
	ended := make(chan struct{}, 2)
	for _, pair := range [][2]net.Conn{{conn, other}, {other, conn}} {
		go func() { _, _ = io.Copy(pair[0], pair[1]); ended <- struct{}{} }()
	}
	<-ended
}

// beComputer is the first process of a computer with its own processes, network, mounts and root directory. It starts
// the machine, whose process runs as long as the computer, and agents as its standard input says. Connections to ports
// on its own loopback leave it through Unix sockets.
func beComputer(root string, ports []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	binary := filepath.Join(root, "test")
	if err := os.WriteFile(binary, nil, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(self, binary, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	null := filepath.Join(root, "dev", "null")
	if err := os.WriteFile(null, nil, 0o666); err != nil {
		return err
	}
	if err := unix.Mount("/dev/null", null, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	if err := unix.Mount("proc", filepath.Join(root, "proc"), "proc", 0, ""); err != nil {
		return err
	}
	if err := unix.Chroot(root); err != nil {
		return err
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	if err := connectComputer(); err != nil {
		return err
	}
	for _, port := range ports {
		go func() {
			fail(serve("tcp", "127.0.0.1:"+port, func(conn net.Conn) { relay(conn, "unix", "/run/"+port) }))
		}()
	}
	node := exec.Command("/test")
	node.Args = []string{nodeProcess}
	if err := node.Start(); err != nil {
		return err
	}
	return runAgents(os.Stdin)
}

// connectComputer gives the computer an address and a default route, which lead nowhere.
func connectComputer() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return err
	}
	card := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "card"}, PeerName: "wire"}
	if err := netlink.LinkAdd(card); err != nil {
		return err
	}
	address, err := netlink.ParseAddr("192.0.2.50/24")
	if err != nil {
		return err
	}
	if err := netlink.AddrAdd(card, address); err != nil {
		return err
	}
	return netlink.LinkSetUp(card)
}

// runAgents starts an agent for each line "start POINT", and kills it for each line "kill". It reports when an agent
// has exited.
func runAgents(orders io.Reader) error {
	var current *exec.Cmd
	lines := bufio.NewScanner(orders)
	for lines.Scan() {
		point, start := strings.CutPrefix(lines.Text(), "start ")
		if !start {
			_ = current.Process.Kill()
			continue
		}
		log, err := os.OpenFile("/var/log/agent.log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		cmd := exec.Command("/test")
		cmd.Args = []string{agentProcess, "--config", "/etc/capstan/agent.yaml"}
		cmd.Env = []string{failpoint.Variable + "=" + point}
		cmd.Stdout, cmd.Stderr = log, log
		if err := cmd.Start(); err != nil {
			return err
		}
		log.Close()
		current = cmd
		go func() { _ = cmd.Wait(); fmt.Println("ended") }()
	}
	return lines.Err()
}

// computer is the computer of a host, as seen from outside.
type computer struct {
	t      *testing.T
	root   string
	orders io.Writer
	ended  chan struct{}

	mu    sync.Mutex
	worst time.Duration // the longest time without an answer of the machine on it
	lost  int           // requests without an answer
}

// newComputer starts a computer that reaches the given ports of this machine's loopback.
func newComputer(t *testing.T, ports ...string) *computer {
	t.Helper()
	// The path must be short, because the paths of sockets are limited.
	root, err := os.MkdirTemp("", "capstan-computer-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	c := &computer{t: t, root: root, ended: make(chan struct{}, 64)}
	for _, dir := range []string{"dev", "proc", "run", "tmp", "etc/capstan", "etc/kubernetes", "var/lib/capstan",
		"var/log", "opt/capstan/bundles"} {
		if err := os.MkdirAll(c.path(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, port := range ports {
		l, err := net.Listen("unix", c.path("run/"+port))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				go func() { defer conn.Close(); relay(conn, "tcp", "127.0.0.1:"+port) }()
			}
		}()
	}
	c.furnish()
	c.boot(ports)
	return c
}

// furnish copies the libraries that the test's binary needs, unless the binary is static.
func (c *computer) furnish() {
	c.t.Helper()
	self, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}
	out, err := exec.CommandContext(c.t.Context(), "ldd", self).Output()
	if err != nil {
		return // it is a static binary
	}
	for _, word := range strings.Fields(string(out)) {
		if !filepath.IsAbs(word) {
			continue
		}
		library, err := os.ReadFile(word)
		if err != nil {
			c.t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(c.path(word)), 0o755); err != nil {
			c.t.Fatal(err)
		}
		if err := os.WriteFile(c.path(word), library, 0o755); err != nil {
			c.t.Fatal(err)
		}
	}
}

func (c *computer) boot(ports []string) {
	c.t.Helper()
	self, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Args = append([]string{firstProcess, c.root}, ports...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL,
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	log, err := os.Create(c.path("var/log/computer.log"))
	if err != nil {
		c.t.Fatal(err)
	}
	defer log.Close()
	cmd.Stderr = log
	if c.orders, err = cmd.StdinPipe(); err != nil {
		c.t.Fatal(err)
	}
	said, err := cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		c.t.Skipf("namespaces can't be made here: %v", err)
	}
	stop := make(chan struct{})
	var pinger sync.WaitGroup
	c.t.Cleanup(func() {
		close(stop)
		pinger.Wait()
		_ = cmd.Process.Kill() // and with it all of the computer's processes
		_ = cmd.Wait()
		if c.t.Failed() {
			for _, name := range []string{"computer.log", "agent.log"} {
				text, _ := os.ReadFile(c.path("var/log/" + name))
				c.t.Logf("%s:\n%s", name, text)
			}
		}
	})
	go func() {
		for lines := bufio.NewScanner(said); lines.Scan(); {
			c.ended <- struct{}{}
		}
	}()
	for end := time.Now().Add(patience); !c.ping(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			c.t.Fatal("the computer does not start")
		}
	}
	pinger.Go(func() { c.watch(stop) })
}

func (c *computer) path(name string) string { return filepath.Join(c.root, name) }

// ping reports whether the machine on the computer answers.
func (c *computer) ping() bool {
	conn, err := net.DialTimeout("unix", c.path("run/node.sock"), time.Second)
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	answer, err := io.ReadAll(conn)
	return err == nil && string(answer) == "here"
}

// watch repeatedly pings the machine.
func (c *computer) watch(stop chan struct{}) {
	last := time.Now()
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		select {
		case <-stop:
			tick.Stop()
			return
		case <-tick.C:
		}
		ok := c.ping()
		c.mu.Lock()
		if ok {
			c.worst, last = max(c.worst, time.Since(last)), time.Now()
		} else {
			c.lost++
		}
		c.mu.Unlock()
	}
}

// start starts an agent, which kills itself at the given point. kill kills the agent that runs.
func (c *computer) start(point string) { c.order("start " + point) }
func (c *computer) kill()              { c.order("kill"); c.gone() }

func (c *computer) order(text string) {
	c.t.Helper()
	if _, err := fmt.Fprintln(c.orders, text); err != nil {
		c.t.Fatalf("ordering %q: %v", text, err)
	}
}

// gone waits until an agent has exited.
func (c *computer) gone() {
	c.t.Helper()
	select {
	case <-c.ended:
	case <-time.After(patience):
		c.t.Fatal("the agent does not exit")
	}
}
