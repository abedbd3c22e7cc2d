package local

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/test/machine"
)

func TestMain(m *testing.M) { os.Exit(machine.Main(m)) }

// limit is the time limit for the whole test.
const limit = 40 * time.Minute

// dir is the directory with the programs on the machine.
const dir = "/opt/tests"

// dock is the command that runs the tests of package dock about limits; containers is the command that runs those of
// the CRI server.
const (
	dock = "cd " + dir + "/dock && CAPSTAN_DOCK=" + dir + "/capstan-dock ./dock.test -test.v -test.timeout 10m " +
		"-test.run 'TestLimitsOfAHost|TestGroupsOfAKilledDock|TestAHostCantRaiseItsLimits'"
	containers = "cd " + dir + " && " + limited
)

// limited is the command that runs the CRI server's tests about limits, in dir. It has no single quotes.
const limited = "env CAPSTAN_HOST_TOOLS=" + dir + "/tools ./realtest.test -test.v -test.timeout 15m " +
	"-test.run \"TestLimits|TooMuchMemory\""

// user is the command that runs dock's tests as an ordinary user whose systemd runs. The user has subordinate ids until
// the command oneID removes them.
const (
	user  = "su -l capstan -c 'sh " + dir + "/dock.sh'"
	oneID = "rm /etc/subuid /etc/subgid && "
)

// delegated is the command that runs the CRI server's tests as that user, as the only process of a control group of its
// own.
const delegated = "su -l capstan -c 'cd " + dir + " && XDG_RUNTIME_DIR=/run/user/$(id -u) " +
	"systemd-run --user --scope --quiet -p Delegate=yes " + limited + "'"

// TestVirtualLocalHosts runs the tests of limits on a virtual machine, where none of them may be skipped.
func TestVirtualLocalHosts(t *testing.T) {
	if os.Getenv(machine.WantedVirtual) == "" {
		t.Skip("starts a virtual machine: make test-vm")
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	root, err := machine.VirtualRoot()
	if err != nil {
		t.Fatal(err)
	}
	temp := t.TempDir()
	archive := programs(ctx, t, temp)
	lan, err := machine.NewLAN("192.0.2.1", 24, "192.0.2.254")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lan.Remove(); err != nil {
			t.Error(err)
		}
	})
	m, err := machine.StartVirtual(ctx, lan, root, temp, "laptop", "192.0.2.21")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Remove(); err != nil {
			t.Error(err)
		}
	})
	file, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := m.Write(ctx, "/root/tests.tar", file); err != nil {
		t.Fatal(err)
	}
	prepare := fmt.Sprintf("mkdir -p %[1]s && tar -C %[1]s --no-same-owner -xf /root/tests.tar && "+
		"cat > %[1]s/dock.sh <<'END'\n%[2]s\nEND\n"+
		"useradd -m -s /bin/bash capstan && loginctl enable-linger capstan && "+
		"timeout 300 sh -c 'until test -S /run/user/$(id -u capstan)/systemd/private; do sleep 1; done'", dir, dock)
	if _, err := m.Run(ctx, prepare); err != nil {
		t.Fatal(err)
	}
	limits := []string{"TestLimitsHold", "TestLimitsSeenFromInside/unprivileged",
		"TestLimitsSeenFromInside/privileged", "TestAContainerThatTakesTooMuchMemory",
		"TestTooMuchMemoryWhileNoServerRuns"}
	hosts := []string{"TestLimitsOfAHost", "TestGroupsOfAKilledDock", "TestAHostCantRaiseItsLimits"}
	for _, c := range []struct {
		name, line string
		want       []string
	}{
		{"hosts of root", "sh " + dir + "/dock.sh", hosts},
		{"hosts of a user with subordinate ids", user, hosts},
		{"hosts of a user with one id", oneID + user, hosts},
		{"containers of root", containers, limits},
		{"containers of a user with one id", delegated, limits},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := m.Run(ctx, c.line)
			if err != nil {
				t.Fatal(err)
			}
			for _, test := range c.want {
				if !strings.Contains(out, "--- PASS: "+test+" ") {
					t.Errorf("%s did not pass:\n%s", test, out)
				}
			}
		})
	}
}

// programs builds the tests and the programs that they run, and returns an archive of all these.
func programs(ctx context.Context, t *testing.T, temp string) string {
	t.Helper()
	built := filepath.Join(temp, "programs")
	source, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"dock", "tools"} {
		if err := os.MkdirAll(filepath.Join(built, part), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		in   string
		args []string
	}{
		{"dock", []string{"go", "test", "-c", "-o", filepath.Join(built, "dock", "dock.test"), "."}},
		{"dock", []string{"cp", "-r", "testdata", filepath.Join(built, "dock")}},
		{"cmd/capstan-dock", []string{"go", "build", "-o", filepath.Join(built, "capstan-dock"), "."}},
		{"kube/cri/realtest", []string{"go", "test", "-c", "-o", filepath.Join(built, "realtest.test"), "."}},
		{"kube", []string{"go", "build", "-o", filepath.Join(built, "tools") + "/", "./cmd/capstan-run",
			"./run/testdata/program", "./cri/realtest/testdata/bundle"}},
		{".", []string{"tar", "-C", built, "-cf", filepath.Join(temp, "tests.tar"), "."}},
	} {
		cmd := exec.CommandContext(ctx, c.args[0], c.args[1:]...)
		cmd.Dir = filepath.Join(source, c.in)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if strings.HasPrefix(c.in, "kube") {
			cmd.Env = append(cmd.Env, "GOWORK=off")
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(c.args, " "), err, out)
		}
	}
	return filepath.Join(temp, "tests.tar")
}
