//go:build linux

package inside

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/capstan-dev/capstan/dock"
	"github.com/capstan-dev/capstan/dock/initd"
	"github.com/capstan-dev/capstan/dock/network"
	"github.com/capstan-dev/capstan/dock/reap"
	"github.com/capstan-dev/capstan/dock/rootfs"
)

const (
	bootLimit    = 30 * time.Second // from the first process to its report
	powerOffWait = 25 * time.Second // from SIGTERM to SIGKILL
	maxConsole   = 1 << 20          // bytes of a host's console log
)

// made reports whether the host's root directory exists with all the files that it was created with.
func made(home, host string) bool {
	_, err := os.Lstat(filepath.Join(dock.HostDir(home, host), "root"))
	return !errors.Is(err, fs.ErrNotExist)
}

// boot creates the root directory if it is missing, starts the host's first process, and returns when that process
// reports the host to be up.
func (e *engine) boot(h *host) (child *reap.Child, err error) {
	e.boots <- struct{}{}
	defer func() { <-e.boots }()
	h.set(dock.HostStarting, 0)
	h.mu.Lock()
	want := h.want
	h.mu.Unlock()
	files := h.takeFiles()
	defer func() {
		if err != nil {
			h.returnFiles(files)
		}
	}()
	dir := dock.HostDir(e.Home, h.name)
	root := filepath.Join(dir, "root")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the directory of host %s: %w", h.name, err)
	}
	if made(e.Home, h.name) {
		if err := rootfs.Put(root, files); err != nil {
			return nil, err
		}
	} else {
		skeleton := rootfs.Skeleton{Name: h.name, MachineID: rootfs.NewMachineID(), OSName: rootfs.MachineOSName()}
		if err := rootfs.Write(root, skeleton, files); err != nil {
			return nil, err
		}
	}
	if err := e.openImages(h); err != nil {
		return nil, err
	}
	child, channel, err := e.spawn(h, dir, root)
	if err != nil {
		return nil, err
	}
	defer channel.Close()
	err = network.Apply(e.kernel, network.PlanLink(want.Address, child.Pid))
	if err == nil {
		err = introduce(channel, initd.Spec{
			Name: h.name, Address: want.Address, Env: want.Env, BootID: newUUID(),
		})
	}
	if err != nil {
		child.Signal(syscall.SIGKILL)
		<-child.Done()
		e.unlink(h)
		return nil, fmt.Errorf("starting host %s: %w (its console log is %s)", h.name, err, filepath.Join(dir, "console.log"))
	}
	h.mu.Lock()
	h.lastErr = ""
	h.mu.Unlock()
	return child, nil
}

// deliver writes the files that arrived for a host while it ran or started. There may be no other way to reach the
// host's agent. For example, a new file can replace an expired token without stopping the host.
func (e *engine) deliver(h *host) error {
	files := h.takeFiles()
	if len(files) == 0 {
		return nil
	}
	if err := rootfs.Put(filepath.Join(dock.HostDir(e.Home, h.name), "root"), files); err != nil {
		h.returnFiles(files)
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lastErr = ""
	return nil
}

// introduce sends PID 1 the host's Spec and waits for its Report.
func introduce(channel net.Conn, spec initd.Spec) error {
	channel.SetDeadline(time.Now().Add(bootLimit))
	if err := json.NewEncoder(channel).Encode(spec); err != nil {
		return fmt.Errorf("telling PID 1 what to do: %w", err)
	}
	var report initd.Report
	if err := json.NewDecoder(channel).Decode(&report); err != nil {
		return fmt.Errorf("waiting for the report of PID 1: %w", err)
	}
	if report.Error != "" {
		if report.NoSpace {
			return fmt.Errorf("%s: %w", report.Error, syscall.ENOSPC)
		}
		return errors.New(report.Error)
	}
	return nil
}

// powerOff stops the host cleanly, or kills it after powerOffWait.
func (e *engine) powerOff(h *host, run *reap.Child) {
	h.set(dock.HostStopping, run.Pid)
	if err := run.Signal(syscall.SIGTERM); err != nil {
		e.Log.Printf("host %s: %v", h.name, err)
	}
	timer := time.NewTimer(powerOffWait)
	defer timer.Stop()
	select {
	case <-run.Done():
	case <-timer.C:
		e.Log.Printf("host %s does not power off in %v: killing it", h.name, powerOffWait)
		if err := run.Signal(syscall.SIGKILL); err != nil {
			e.Log.Printf("host %s: %v", h.name, err)
		}
		<-run.Done()
	}
	e.unlink(h)
}

// unlink removes the host's network cable, a veth pair. All its processes must have ended.
func (e *engine) unlink(h *host) error {
	err := network.Apply(e.kernel, network.PlanUnlink(h.want.Address))
	if err != nil {
		e.Log.Printf("host %s: %v", h.name, err)
	}
	return err
}

func newUUID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	s := hex.EncodeToString(b[:])
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}
