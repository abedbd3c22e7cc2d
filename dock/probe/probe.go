//go:build linux

// Package probe finds out whether a dock can work on this machine. In temporary namespaces, it tries everything that a
// dock does, and it explains failures by the machine's settings.
package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/dock"
	"github.com/capstan-dev/capstan/dock/network"
	"github.com/capstan-dev/capstan/dock/outside"
	"github.com/capstan-dev/capstan/dock/rootfs"
	"github.com/capstan-dev/capstan/internal/environ"
)

// tryLimit bounds the attempt.
const tryLimit = 10 * time.Second

// minOpenFiles is the limit of open files that etcd and the API servers need.
const minOpenFiles = 4096

// failure is what went wrong in the attempt.
type failure struct {
	Stage string        `json:"stage"` // clone, mount, proc, bridge, veth, sysctl, host
	Errno syscall.Errno `json:"errno"`
	Text  string        `json:"text"`
}

// Config configures Check.
type Config struct {
	Home      string
	MinFree   uint64   // bytes
	Instances int      // inotify instances that must be free
	Inside    []string // arguments that make this same program call Inside
}

// Check returns what keeps a dock from working.
func Check(ctx context.Context, c Config) []*dock.Problem {
	problems := []*dock.Problem{}
	limits, err := dock.ReadLimits(c.Home)
	if err != nil {
		problems = append(problems, &dock.Problem{Setting: "/proc", Message: err.Error(), Fix: "mount /proc"})
	} else {
		problems = append(problems, tooLow(limits, c)...)
	}
	if f := try(ctx, c.Inside); f != nil {
		problems = append(problems, diagnose(*f, readFacts()))
	}
	return problems
}

func tooLow(l dock.Limits, c Config) []*dock.Problem {
	var out []*dock.Problem
	if l.FreeDisk < c.MinFree {
		out = append(out, &dock.Problem{
			Setting: "free space of the disk of " + c.Home, Have: mib(l.FreeDisk), Want: mib(c.MinFree),
			Message: "the disk is too full for a dock", Fix: "free some space, or choose another home directory with --home",
		})
	}
	if free := l.InotifyInstances - l.InotifyUsed; free < c.Instances {
		out = append(out, &dock.Problem{
			Setting: "fs.inotify.max_user_instances", Have: fmt.Sprintf("%d, with %d in use", l.InotifyInstances, l.InotifyUsed),
			Want:    strconv.Itoa(l.InotifyUsed + c.Instances),
			Message: "too few inotify instances: each control plane takes 18 and each worker 5",
			Fix:     "sudo sysctl -w fs.inotify.max_user_instances=" + strconv.Itoa(max(1024, l.InotifyUsed+c.Instances)),
		})
	}
	if l.OpenFiles < minOpenFiles {
		out = append(out, &dock.Problem{
			Setting: "limit of open files (ulimit -Hn)", Have: strconv.FormatUint(l.OpenFiles, 10),
			Want:    strconv.Itoa(minOpenFiles),
			Message: "too few files may be open", Fix: "raise it in /etc/security/limits.conf: * hard nofile 65536",
		})
	}
	return out
}

func mib(n uint64) string { return strconv.FormatUint(n>>20, 10) + " MiB" }

// try runs Inside in the namespaces of a dock. It returns nil on success.
func try(ctx context.Context, inside []string) *failure {
	ctx, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", inside...)
	cmd.SysProcAttr = outside.Namespaces(outside.Rootless())
	var out bytes.Buffer
	cmd.Stdout = &out
	cmd.Env, cmd.WaitDelay = environ.Child(), time.Second
	err := cmd.Run()
	var f failure
	if json.Unmarshal(out.Bytes(), &f) == nil {
		if f.Stage == "" {
			return nil
		}
		return &f
	}
	var errno syscall.Errno
	errors.As(err, &errno)
	return &failure{Stage: "clone", Errno: errno, Text: fmt.Sprint(err)}
}

// Inside tries everything that a dock does, in new namespaces, and prints the failure.
func Inside() error {
	f := failure{}
	for _, step := range []struct {
		stage string
		do    func() error
	}{
		{"mount", tryMount}, {"bridge", tryBridge}, {"veth", tryVeth},
	} {
		if err := step.do(); err != nil {
			f = failure{Stage: step.stage, Text: err.Error()}
			errors.As(err, &f.Errno)
			break
		}
	}
	return json.NewEncoder(os.Stdout).Encode(f)
}

func tryMount() error {
	if err := rootfs.Isolate(); err != nil {
		return err
	}
	return unix.Mount("tmpfs", "/tmp", "tmpfs", 0, "size=64k")
}

func tryBridge() error {
	k, err := network.Open()
	if err != nil {
		return err
	}
	defer k.Close()
	// This process has not used /proc/sys before, so the plan sets the sysctls of the new network namespace.
	return network.Apply(k, network.PlanDock())
}

// tryVeth creates a veth pair with its peer in this same namespace, which tests as much as a peer in a host's namespace
// would.
func tryVeth() error {
	k, err := network.Open()
	if err != nil {
		return err
	}
	defer k.Close()
	return network.Apply(k, network.PlanLink(netip.MustParseAddr("10.231.1.1"), os.Getpid()))
}
