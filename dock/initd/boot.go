//go:build linux

// Package initd is PID 1 of a local host. It completes the host's root directory and network, runs a subset of
// systemd's services, and answers systemctl, journalctl, hostnamectl, poweroff and reboot.
//
// The dock starts it in new namespaces, in the host's root directory, with one end of a socket pair as file descriptor
// 3. The dock then connects the host's network cable (a veth pair) and sends a Spec. PID 1 answers with a Report when
// the host is up or has failed to come up. SIGTERM powers the host off.
package initd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/dock/network"
	"github.com/capstan-dev/capstan/dock/reap"
	"github.com/capstan-dev/capstan/dock/rootfs"
	unitfile "github.com/capstan-dev/capstan/dock/unit"
)

// SpecFD is the file descriptor on which PID 1 gets its Spec and sends its Report.
const SpecFD = 3

// RebootCode is the exit status by which PID 1 asks the dock to start the host again. After a power-off the status is
// 0.
const RebootCode = 10

// Spec is the configuration of PID 1.
type Spec struct {
	Name    string     // the host's name, also its host name unless /etc/hostname has another one
	Address netip.Addr // in the dock's network
	Env     []string   // NAME=VALUE, for every service
	BootID  string     // a UUID
}

// Report is the answer to a Spec.
type Report struct {
	Error   string // "" when the host is up
	NoSpace bool   // it failed because the disk is full
}

// Run is the whole life of PID 1. It returns the exit status.
func Run() int {
	debug.SetGCPercent(50) // each host runs one such process: memory matters more than speed
	debug.SetMemoryLimit(32 << 20)
	logger := log.New(os.Stderr, "init: ", log.LstdFlags|log.Lmsgprefix)
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	// Catch SIGHUP and drop it. If this process ignored SIGHUP, every service would inherit that setting.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)

	channel := os.NewFile(SpecFD, "spec")
	if channel == nil || os.Getpid() != 1 {
		logger.Print("this command is PID 1 of a local host; only the dock starts it")
		return 2
	}
	unix.CloseOnExec(SpecFD)
	nameProcess("capstan-init")
	h, err := boot(channel, logger)
	report := Report{}
	if err != nil {
		report.Error, report.NoSpace = err.Error(), errors.Is(err, syscall.ENOSPC)
		logger.Print(err)
	}
	json.NewEncoder(channel).Encode(report)
	channel.Close()
	if err != nil {
		return 1
	}
	go h.manager.StartEnabled(context.Background())
	reboot := false
	select {
	case <-signals:
	case reboot = <-h.power:
	}
	return h.shutdown(reboot)
}

// nameProcess names the process in process lists, where it would otherwise be called "exe".
func nameProcess(name string) {
	os.WriteFile("/proc/self/comm", []byte(name), 0) // not worth an error
}

type host struct {
	spec    Spec
	log     *log.Logger
	reaper  *reap.Reaper
	manager *Manager
	control net.Listener
	power   chan bool // true asks for a reboot
}

func boot(channel io.Reader, logger *log.Logger) (*host, error) {
	h := &host{log: logger, power: make(chan bool, 1)}
	if err := json.NewDecoder(channel).Decode(&h.spec); err != nil {
		return nil, fmt.Errorf("reading the specification of this host: %w", err)
	}
	unix.Umask(0o022)
	if err := h.mount(); err != nil {
		return nil, err
	}
	if err := h.connect(); err != nil {
		return nil, err
	}
	if err := h.prepare(); err != nil {
		return nil, err
	}
	if err := dropCapabilities(lastCapability()); err != nil {
		return nil, err
	}
	var err error
	if h.control, err = listen(); err != nil {
		return nil, err
	}
	h.reaper = reap.New()
	env := append([]string{"PATH=" + rootfs.Path, "HOME=/root", "USER=root", "LOGNAME=root", "SHELL=/bin/sh",
		"LANG=C.UTF-8"}, h.spec.Env...)
	h.manager = NewManager(Config{Reaper: h.reaper, Log: logger, UnitDirs: unitfile.Dirs, LogDir: "/var/log", Env: env})
	go serve(h.control, h.answer)
	return h, nil
}

func (h *host) mount() error {
	if err := rootfs.Isolate(); err != nil {
		return err
	}
	return rootfs.Apply(rootfs.PlanOwn(h.spec.BootID))
}

func (h *host) connect() error {
	kernel, err := network.Open()
	if err != nil {
		return err
	}
	defer kernel.Close()
	return network.Apply(kernel, network.PlanHost(h.spec.Address))
}

// prepare does what every boot needs: it sets the host name, prepares name resolution and empties /tmp.
func (h *host) prepare() error {
	name := h.spec.Name
	if data, err := os.ReadFile("/etc/hostname"); err == nil && strings.TrimSpace(string(data)) != "" {
		name = strings.TrimSpace(string(data))
	}
	if err := h.setHostname(name); err != nil {
		return err
	}
	// The dock has no name server. An empty file makes look-ups fail at once.
	if _, err := os.Stat("/etc/resolv.conf"); errors.Is(err, os.ErrNotExist) {
		text := fmt.Sprintf("nameserver %s\noptions timeout:1 attempts:1\n", network.Gateway)
		if err := os.WriteFile("/etc/resolv.conf", []byte(text), 0o644); err != nil {
			return fmt.Errorf("booting: %w", err)
		}
	}
	for _, dir := range []string{"/tmp", "/var/tmp"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("booting: %w", err)
		}
		if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
			return fmt.Errorf("booting: %w", err)
		}
	}
	entries, err := os.ReadDir("/tmp")
	if err != nil {
		return fmt.Errorf("booting: emptying /tmp: %w", err)
	}
	for _, e := range entries {
		if err := rootfs.Remove(filepath.Join("/tmp", e.Name())); err != nil {
			return fmt.Errorf("booting: emptying /tmp: %w", err)
		}
	}
	return nil
}

// setHostname sets the name now and for later boots.
func (h *host) setHostname(name string) error {
	if len(name) == 0 || len(name) > 64 || strings.Trim(name,
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.") != "" {
		return fmt.Errorf("setting the host name: %q is not a host name", name)
	}
	if err := unix.Sethostname([]byte(name)); err != nil {
		return fmt.Errorf("setting the host name: %w", err)
	}
	if err := replaceFile("/etc/hostname", name+"\n"); err != nil {
		return fmt.Errorf("setting the host name: %w", err)
	}
	old, err := os.ReadFile("/etc/hosts")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("setting the host name: %w", err)
	}
	if text := hostsFile(string(old), h.spec.Address, name); text != string(old) {
		if err := replaceFile("/etc/hosts", text); err != nil {
			return fmt.Errorf("setting the host name: %w", err)
		}
	}
	return nil
}

func replaceFile(path, text string) error {
	temp := path + ".capstan-new"
	if err := os.WriteFile(temp, []byte(text), 0o644); err != nil {
		os.Remove(temp)
		return err
	}
	return os.Rename(temp, path)
}

// hostsMark ends our line in /etc/hosts. All other lines stay as they are.
const hostsMark = "# this host"

// hostsFile returns /etc/hosts with the line for this host replaced.
func hostsFile(old string, address netip.Addr, name string) string {
	if old == "" {
		old = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"
	}
	var b strings.Builder
	for _, line := range strings.SplitAfter(old, "\n") {
		if !strings.HasSuffix(strings.TrimSpace(line), hostsMark) {
			b.WriteString(line)
		}
	}
	if !strings.HasSuffix(b.String(), "\n") {
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "%s %s %s\n", address, name, hostsMark)
	return b.String()
}

// answer serves one call on the control socket.
func (h *host) answer(args []string) Reply {
	switch args[0] {
	case "systemctl":
		return h.manager.Systemctl(args[1:], h.powerOff)
	case "hostnamectl":
		if err := h.setHostname(args[1]); err != nil {
			return Reply{Err: err.Error() + "\n", Code: 1}
		}
		return Reply{}
	}
	return Reply{Err: fmt.Sprintf("PID 1 of this host does not know %q\n", args[0]), Code: 1}
}

func (h *host) powerOff(reboot bool) {
	select {
	case h.power <- reboot:
	default: // a power-off is already under way
	}
}

// rest is how long processes outside of services may take to exit after SIGTERM at power-off.
const rest = 3 * time.Second

func (h *host) shutdown(reboot bool) int {
	h.log.Print("shutting down")
	h.manager.StopAll()
	// The remaining processes are children that outlived their services, such as the containers of a CRI server.
	unix.Kill(-1, unix.SIGTERM)
	for limit := time.Now().Add(rest); unix.Kill(-1, 0) == nil; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			unix.Kill(-1, unix.SIGKILL)
			break
		}
	}
	h.control.Close()
	if reboot {
		return RebootCode
	}
	return 0
}
