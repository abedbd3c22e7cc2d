//go:build linux

// Package testns runs a package's tests in their own Linux namespaces, as root or as an ordinary user, so that they can
// create links and mounts and leave nothing behind.
package testns

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/dock/outside"
)

const inside = "CAPSTAN_TEST_INSIDE"

// Child is set (NAME=VALUE) in the environment of a child process that runs this same test binary in namespaces that
// the test created.
const Child = inside + "=child"

// Main is the body of a TestMain. It exits the process.
func Main(m *testing.M) {
	switch os.Getenv(inside) {
	case "child":
		os.Exit(m.Run())
	case "":
	default:
		os.Exit(enter(m))
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = outside.Namespaces(outside.Rootless())
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		os.Exit(max(exit.ExitCode(), 1))
	case err != nil:
		fmt.Fprintln(os.Stderr, "making namespaces for the tests:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func enter(m *testing.M) int {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		fmt.Fprintln(os.Stderr, "making mounts private:", err)
		return 1
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		fmt.Fprintln(os.Stderr, "mounting /proc:", err)
		return 1
	}
	return m.Run()
}
