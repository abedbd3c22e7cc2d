package agent

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/agent/bootstrap"
	"github.com/capstan-dev/capstan/agent/internal/testhost"
	"github.com/capstan-dev/capstan/api/v1beta2"
)

func TestBootstrapAndRelease(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		agent := h.start(t, "")
		h.api.Wait(t, "the facts", func(r *v1beta2.AgentReport) bool { return r.BootID != "" })
		r := h.api.Host.Status.Agent
		if r.Address != testhost.Address || r.OperatingSystem != "Test host" ||
			!slices.Equal(r.KubernetesVersions, []string{"v1.36.3"}) || r.Processors < 1 || r.MemoryMiB < 1 {
			t.Errorf("facts: %+v", r)
		}
		for range 2 {
			id := h.claimIt(testData)
			got := h.waitBootstrap(t, id, v1beta2.BootstrapSucceeded)
			if !strings.Contains(got.Message, "first runcmd 3/3") || got.StartTime.IsZero() || got.CompletionTime.IsZero() {
				t.Errorf("report: %+v", got)
			}
			checkMachine(t, id)
			h.releaseIt(t, id)
			checkClean(t)
			forget(t, "/var/lib/post")
		}
		stop(t, agent)
		if len(h.api.Denied) > 0 {
			t.Errorf("calls that the Role does not allow: %v", h.api.Denied)
		}
		if h.api.Beats == 0 || fmt.Sprint(h.api.Lease["metadata"].(map[string]any)["labels"]) != "map[keep:me]" {
			t.Errorf("the Lease: %d beats, %v", h.api.Beats, h.api.Lease)
		}
		if got := strings.Count(content("/var/log/calls"), "kubeadm init"); got != 2 {
			t.Errorf("kubeadm init ran %d times for 2 machines", got)
		}
	})
}

// bootstrapSteps are all steps of testData. A failpoint can also kill the agent while a command runs.
var bootstrapSteps = []string{
	"bundle", "hostname", "runtime", "bootcmd 1/1", "write_files", "write_files again", "users", "runcmd 1/3",
	"runcmd 2/3", "runcmd 3/3",
}

func TestABootstrapThatIsKilledAnywhereConverges(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		var points []string
		for _, step := range bootstrapSteps {
			points = append(points, "started "+step, "ran "+step, "finished "+step)
			if strings.Contains(step, "cmd") {
				points = append(points, "running "+step)
			}
		}
		for _, point := range points {
			id := h.claimIt(testData)
			killed(t, h.start(t, point))
			agent := h.start(t, "")
			h.waitBootstrap(t, id, v1beta2.BootstrapSucceeded)
			checkMachine(t, id)
			calls := content("/var/log/calls")
			inits, resets := strings.Count(calls, "kubeadm init"), strings.Count(calls, "kubeadm reset")
			if inits > 2 || inits != resets+1 && (inits != 1 || resets != 1) {
				t.Errorf("kubeadm init ran %d times, kubeadm reset %d times", inits, resets)
			}
			h.releaseIt(t, id)
			checkClean(t)
			stop(t, agent)
			forget(t, "/var/lib/post", "/var/log/calls", "/var/log/boot")
			if t.Failed() {
				t.Fatalf("failed after the agent was killed at point %q", point)
			}
		}
	})
}

func TestACommandThatIsInterruptedAgainAndAgainFails(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		id := h.claimIt(testData)
		for range 4 {
			killed(t, h.start(t, "running runcmd 2/3"))
		}
		agent := h.start(t, "")
		got := h.waitBootstrap(t, id, v1beta2.BootstrapFailed)
		if got.Step != "runcmd 2/3" || !strings.Contains(got.Message, "kubeadm init was interrupted 4 times") {
			t.Errorf("report %+v", got)
		}
		if n := strings.Count(content("/var/log/calls"), "kubeadm init"); n > 4 {
			t.Errorf("kubeadm init ran %d times", n)
		}
		h.releaseIt(t, id)
		checkClean(t)
		stop(t, agent)
	})
}

func TestACleaningThatIsKilledAnywhereConverges(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		for _, point := range []string{
			"cleaned end-commands", "cleaned thaw", "cleaned kubeadm-reset", "cleaned stop-services", "cleaned end-processes",
			"cleaned stop-slice", "cleaned unmount",
			"cleaned wipe-disks",
			"cleaned restore-files", "cleaned delete-directories", "cleaned delete-users", "cleaned network", "stripped",
			"proved",
		} {
			id := h.claimIt(testData)
			first := h.start(t, point)
			h.waitBootstrap(t, id, v1beta2.BootstrapSucceeded)
			h.api.Change(func() { h.api.Host.Spec.Claim.Released = true })
			killed(t, first)
			second := h.start(t, "")
			h.waitClean(t, id)
			checkClean(t)
			stop(t, second)
			forget(t, "/var/lib/post")
			if t.Failed() {
				t.Fatalf("failed after the agent was killed at point %q", point)
			}
		}
	})
}

func TestAReleaseInTheMiddleOfABootstrap(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		agent := h.start(t, "")
		id := h.claimIt("#cloud-config\nwrite_files:\n- {path: /etc/kubernetes/x, content: x}\nruncmd:\n" +
			"- setsid sleep 600 & sleep 600\n")
		h.api.Wait(t, "the command", func(r *v1beta2.AgentReport) bool {
			return r.Bootstrap != nil && r.Bootstrap.Step == "runcmd 1/1"
		})
		h.releaseIt(t, id)
		checkClean(t)
		if left := running(t, "sleep"); len(left) > 0 {
			t.Errorf("processes left after the release: %v", left)
		}
		stop(t, agent)
	})
}

func TestAfterARebootNothingIsRunAgain(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		agent := h.start(t, "")
		id := h.claimIt(testData)
		h.waitBootstrap(t, id, v1beta2.BootstrapSucceeded)
		stop(t, agent)
		calls, before := content("/var/log/calls"), h.api.Host.Status.Agent.BootID
		if err := unix.Mount("run", "/run", "tmpfs", 0, ""); err != nil { // /run is in memory
			t.Fatal(err)
		}
		h.api.Change(func() { h.api.Host.Status.Agent = nil }) // a move may also drop the status
		agent = h.start(t, "")
		h.waitBootstrap(t, id, v1beta2.BootstrapSucceeded)
		h.api.Wait(t, "another boot ID", func(r *v1beta2.AgentReport) bool { return r.BootID != before && r.BootID != "" })
		h.api.Change(func() { h.api.Host.Status.Agent = nil })
		h.waitBootstrap(t, id, v1beta2.BootstrapSucceeded)
		stop(t, agent)
		if after := content("/var/log/calls"); after != calls {
			t.Errorf("calls after the reboot: %s", strings.TrimPrefix(after, calls))
		}
	})
}

func TestARebootInTheMiddleConverges(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		for _, point := range []string{"finished write_files", "before runcmd 2/3", "running runcmd 2/3", "ran runcmd 2/3",
			"started runcmd 3/3"} {
			id := h.claimIt(testData)
			killed(t, h.start(t, point))
			// Programs stop, and /run is empty. Edits made there before kubeadm ran are lost, as with cloud-init.
			for _, name := range []string{"capstan-kube", "kubelet", "sh", "kubeadm"} {
				_ = exec.Command("pkill", "-KILL", "-x", name).Run()
			}
			if err := unix.Unmount("/run", unix.MNT_DETACH); err != nil {
				t.Fatal(err)
			}
			if err := unix.Mount("run", "/run", "tmpfs", 0, "mode=755"); err != nil {
				t.Fatal(err)
			}
			agent := h.start(t, "")
			if point == "before runcmd 2/3" {
				got := h.waitBootstrap(t, id, v1beta2.BootstrapFailed)
				if got.Step != "runcmd 2/3" {
					t.Errorf("report %+v", got)
				}
				forget(t, "/var/log/broken")
			} else {
				h.waitBootstrap(t, id, v1beta2.BootstrapSucceeded)
			}
			h.releaseIt(t, id)
			checkClean(t)
			stop(t, agent)
			forget(t, "/var/lib/post", "/var/log/calls", "/var/log/boot")
			if t.Failed() {
				t.Fatalf("failed after the agent was killed at point %q", point)
			}
		}
	})
}

func TestFailures(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		agent := h.start(t, "")
		cases := []struct{ name, data, step, message string }{
			{"not a cloud-config", "{}", "bootstrap data", "must start with #cloud-config"},
			{"an unknown variable", "## template: jinja\n#cloud-config\nruncmd: ['{{ ds.meta_data.nothing }}']\n",
				"bootstrap data", "variable ds.meta_data.nothing is unknown"},
			{"disks on a local host", "#cloud-config\ndisk_setup: {/dev/sdb: {layout: true}}\n", "disk_setup",
				"a local host has no disks"},
			{"an owner that doesn't exist", "#cloud-config\nwrite_files: [{path: /x, owner: hunter2}]\n", "write_files",
				"file 1 of 1: its owner doesn't exist"},
			{"kubeadm fails",
				"#cloud-config\nruncmd:\n- kubeadm init hunter2 && echo > /run/cluster-api/bootstrap-success.complete\n" +
					"- touch /run/after\n", "runcmd 1/2", "kubeadm init ended with exit status 1"},
			{"kubeadm is not installed", "#cloud-config\nruncmd: ['/nowhere/kubeadm join hunter2']\n", "runcmd 1/1",
				"this host has no kubeadm: install it"},
			{"the last command fails", "#cloud-config\nruncmd:\n- true\n- echo hunter2; exit 5\n", "runcmd 2/2",
				"the last command ended with exit status 5"},
		}
		for _, c := range cases {
			id := h.claimIt(c.data)
			got := h.waitBootstrap(t, id, v1beta2.BootstrapFailed)
			if got.Step != c.step || !strings.Contains(got.Message, c.message) ||
				!strings.Contains(got.Message, bootstrap.LogPath) || strings.Contains(got.Message, "hunter2") {
				t.Errorf("%s: %+v", c.name, got)
			}
			forget(t, "/var/log/broken")
			h.releaseIt(t, id)
		}
		h.api.Claim("other", "#cloud-config\n")
		h.api.Change(func() { h.api.Host.Spec.Claim.KubernetesVersion = "v1.30.0" })
		if _, err := os.Stat("/run/after"); err == nil {
			t.Error("the agent ran more commands after kubeadm had failed")
		}
		stop(t, agent)
	})
}

func TestAVersionThatIsNotThere(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		h.api.Claim("00000001", "#cloud-config\n")
		h.api.Host.Spec.Claim.KubernetesVersion = "v1.30.0"
		agent := h.start(t, "")
		got := h.waitBootstrap(t, "capstan://default/h1/00000001", v1beta2.BootstrapFailed)
		if got.Step != "bundle" || !strings.Contains(got.Message,
			"no bundle of Kubernetes v1.30.0 in "+bundles+"; it has v1.36.3") {
			t.Errorf("report %+v", got)
		}
		stop(t, agent)
	})
}

func TestAServerThatFailsAndATokenThatIsGone(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		h.api.Failures = 12
		agent := h.start(t, "")
		id := h.claimIt(testData)
		h.waitBootstrap(t, id, v1beta2.BootstrapSucceeded)
		h.api.Change(func() { clear(h.api.Tokens) }) // all tokens are revoked
		h.api.CloseClientConnections()
		// the host enrolled again
		if err := os.WriteFile(h.config, []byte(h.api.AgentConfig("/var/lib/capstan")), 0o600); err != nil {
			t.Fatal(err)
		}
		h.releaseIt(t, id)
		stop(t, agent)
		if info, err := os.Stat("/var/lib/capstan/token"); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the kept token: %v, %v", info, err)
		}
	})
}

func TestASecretOfAnotherClaimIsNotUsed(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		id := h.claimIt("#cloud-config\n")
		right := h.api.Secret
		h.api.Secret = map[string][]byte{
			"value":    []byte("#cloud-config\nruncmd: [touch /run/wrong]\n"),
			"metadata": []byte(`{"provider_id":"capstan://default/h1/99999999"}`),
		}
		agent := h.start(t, "")
		h.api.Wait(t, "the first look", func(r *v1beta2.AgentReport) bool {
			return r.Bootstrap != nil && r.Bootstrap.Step == "bootstrap data"
		})
		h.api.Change(func() { h.api.Secret = right })
		h.waitBootstrap(t, id, v1beta2.BootstrapSucceeded)
		if _, err := os.Stat("/run/wrong"); err == nil {
			t.Error("data of another claim was run")
		}
		stop(t, agent)
	})
}

func TestASuppliedHostIsNotCleaned(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		h.api.Host.Spec.Supplier = "dock"
		agent := h.start(t, "")
		id := h.claimIt("#cloud-config\nruncmd: [setsid sleep 600 & sleep 600]\n")
		h.api.Wait(t, "the command", func(r *v1beta2.AgentReport) bool {
			return r.Bootstrap != nil && r.Bootstrap.Step == "runcmd 1/1"
		})
		h.api.Change(func() { h.api.Host.Spec.Claim.Released = true })
		for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			if len(running(t, "sleep")) == 0 {
				break
			}
			if time.Now().After(end) {
				t.Fatal("the bootstrap still runs after the release")
			}
		}
		stop(t, agent)
		if h.api.Host.Status.Agent.Cleaning != nil || strings.Contains(content("/var/log/calls"), "stop kubelet") {
			t.Errorf("the agent cleaned a supplied host after %s", id)
		}
	})
}

func TestLeftoversAreReportedAndTriedAgain(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		agent := h.start(t, "")
		id := h.claimIt(testData)
		h.waitBootstrap(t, id, v1beta2.BootstrapSucceeded)
		waitKubelet(t)
		keep, err := os.Open("/var/lib/kubelet/pods/a/volume") // a process outside the machine holds a mount
		if err != nil {
			t.Fatal(err)
		}
		h.api.Change(func() { h.api.Host.Spec.Claim.Released = true })
		h.api.Wait(t, "a report of leftovers", func(r *v1beta2.AgentReport) bool {
			return r.Cleaning != nil && r.Cleaning.Done &&
				slices.Contains(r.Cleaning.Leftovers, "mount /var/lib/kubelet/pods/a/volume") &&
				slices.Contains(r.Cleaning.Leftovers, "path /var/lib/kubelet")
		})
		keep.Close()
		h.waitClean(t, id)
		checkClean(t)
		stop(t, agent)
	})
}

func TestOnlyOneAgentRuns(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		first := h.start(t, "")
		h.api.Wait(t, "the facts", func(r *v1beta2.AgentReport) bool { return r.BootID != "" })
		second := exec.Command(testhost.Binary)
		second.Args = []string{"capstan-agent", "--config", h.config}
		out, err := second.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "another agent runs on this host") {
			t.Errorf("got %v: %s", err, out)
		}
		stop(t, first)
	})
}

func TestMainProgram(t *testing.T) {
	cases := map[string]struct {
		args        []string
		code        int
		out, errOut string
	}{
		"the version":                  {[]string{"--version"}, 0, "capstan-agent dev\n", ""},
		"help":                         {[]string{"--help"}, 0, "", "-config"},
		"an unknown flag":              {[]string{"--nothing"}, 2, "", "nothing"},
		"an argument":                  {[]string{"run"}, 2, "", `unknown argument "run"`},
		"no configuration":             {[]string{"--config", "/does/not/exist"}, 1, "", "enroll the host"},
		"a directory as configuration": {[]string{"--config", "/"}, 1, "", "capstan-agent: reading"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			if code := Main("dev", c.args, nil, &out, &errOut); code != c.code {
				t.Errorf("exit code %d", code)
			}
			if out.String() != c.out || !strings.Contains(errOut.String(), c.errOut) {
				t.Errorf("stdout %q, stderr %q", &out, &errOut)
			}
		})
	}
}
