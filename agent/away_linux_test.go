package agent

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/agent/internal/testapi"
	"github.com/capstan-dev/capstan/agent/internal/testhost"
	"github.com/capstan-dev/capstan/agent/journal"
	"github.com/capstan-dev/capstan/api/v1beta2"
)

// waitCarries waits until the agent reports the machine with this id as the one that is still on the host, or reports
// no machine if id is empty.
func (h *host) waitCarries(t *testing.T, id string) {
	t.Helper()
	h.api.Wait(t, "the expected machine in the report", func(r *v1beta2.AgentReport) bool { return r.Carries == id })
}

// waitFree waits until the agent has cleaned up after a machine although no claim asks for that.
func (h *host) waitFree(t *testing.T, id string) {
	t.Helper()
	h.api.Wait(t, "a report that no machine is on the host", func(r *v1beta2.AgentReport) bool {
		return r.Carries == "" && r.Cleaning != nil && r.Cleaning.ProviderID == id && r.Cleaning.Done &&
			len(r.Cleaning.Leftovers) == 0
	})
}

// away runs a machine on the host and then stops the agent.
func (h *host) away(t *testing.T) (id string) {
	t.Helper()
	agent := h.start(t, "")
	id = h.claimIt(testData)
	h.waitBootstrap(t, id, v1beta2.BootstrapSucceeded)
	h.waitCarries(t, id)
	waitKubelet(t)
	stop(t, agent)
	return id
}

// runsOn checks that the machine still runs and was not cleaned away.
func runsOn(t *testing.T) {
	t.Helper()
	if len(running(t, "kubelet")) == 0 || content("/etc/kubernetes/kubelet.conf") != "conf\n" {
		t.Error("the agent cleaned up after the machine")
	}
}

// TestAHostWhoseClaimEndedWithoutIt: a host returns with a machine whose claim has ended. Its agent cleans up before
// the host counts as free, at whatever point the agent is killed. Afterwards the host works again.
func TestAHostWhoseClaimEndedWithoutIt(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		for _, point := range []string{"", "cleaned stop-services", "cleaned delete-directories", "stripped", "proved"} {
			id := h.away(t)
			h.api.NextEpoch()
			if point != "" {
				killed(t, h.start(t, point))
			}
			agent := h.start(t, "")
			h.waitFree(t, id)
			checkClean(t)
			stop(t, agent)
			forget(t, "/var/lib/post")
			if t.Failed() {
				t.Fatalf("failed after the agent was killed at point %q", point)
			}
		}
		h.away(t) // the host can be used again
	})
}

// TestAHostThatIsClaimedAnewBeforeItIsBack: the agent cleans up after the earlier machine, and then starts the new one.
func TestAHostThatIsClaimedAnewBeforeItIsBack(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		for name, then := range map[string]func(){
			"the claim ended": h.api.NextEpoch,
			"the host was registered again": func() {
				h.api.Change(func() { h.api.Host.UID, h.api.Host.Spec.Epoch, h.api.Host.Status.Agent = "another", 0, nil })
			},
		} {
			h.away(t)
			forget(t, "/var/lib/post", "/var/log/calls")
			then()
			id := h.claimIt(testData)
			agent := h.start(t, "")
			h.waitBootstrap(t, id, v1beta2.BootstrapSucceeded)
			checkMachine(t, id)
			calls := content("/var/log/calls")
			reset, init := strings.Index(calls, "kubeadm reset"), strings.Index(calls, "kubeadm init")
			if reset < 0 || init < reset || strings.Count(calls, "kubeadm init") != 1 {
				t.Errorf("%s: the calls are\n%s", name, calls)
			}
			h.releaseIt(t, id)
			checkClean(t)
			stop(t, agent)
			forget(t, "/var/lib/post")
		}
	})
}

// TestAClaimThatIsMissingIsNoWord: a management cluster that was restored from a backup doesn't know the claim. The
// agent reports which machine is still on the host, and cleans nothing until an administrator allows the agent to
// remove the machine.
func TestAClaimThatIsMissingIsNoWord(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		id := h.away(t)
		h.api.Change(func() { h.api.Host.Spec.Claim, h.api.Secret, h.api.Host.Status.Agent = nil, nil, nil })
		agent := h.start(t, "")
		h.api.Wait(t, "a report of the machine that is still on the host", func(r *v1beta2.AgentReport) bool {
			return r.Carries == id && r.Cleaning != nil && r.Cleaning.ProviderID == id && len(r.Cleaning.Leftovers) == 1
		})
		runsOn(t)

		other := h.claimIt(testData) // by a provider that ignores the machine on the host
		got := h.waitBootstrap(t, other, v1beta2.BootstrapFailed)
		if !strings.Contains(got.Message, "still has the machine of "+id) {
			t.Errorf("report %+v", got)
		}
		runsOn(t)
		h.api.Change(func() { h.api.Host.Spec.Claim, h.api.Secret = nil, nil })

		h.api.Change(func() { h.api.Host.Annotations = map[string]string{v1beta2.AcceptAnnotation: id} })
		h.waitFree(t, id)
		checkClean(t)
		stop(t, agent)
	})
}

// TestLeftoversThatWereAcceptedDontKeepTheNextMachineAway: somebody accepts the leftovers, once while the agent runs
// and once while it does not.
func TestLeftoversThatWereAcceptedDontKeepTheNextMachineAway(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		for _, there := range []bool{true, false} {
			agent := h.start(t, "")
			id := h.claimIt(testData)
			h.waitBootstrap(t, id, v1beta2.BootstrapSucceeded)
			waitKubelet(t)
			keep, err := os.Open("/var/lib/kubelet/pods/a/volume")
			if err != nil {
				t.Fatal(err)
			}
			h.api.Change(func() { h.api.Host.Spec.Claim.Released = true })
			h.api.Wait(t, "a report of leftovers", func(r *v1beta2.AgentReport) bool {
				return r.Cleaning != nil && r.Cleaning.Done && len(r.Cleaning.Leftovers) > 0 && r.Carries == id
			})
			if !there {
				stop(t, agent)
			}
			h.api.Change(func() { h.api.Host.Annotations = map[string]string{v1beta2.AcceptedAnnotation: id} })
			h.api.NextEpoch()
			if !there {
				agent = h.start(t, "")
			}
			h.waitCarries(t, "")
			left, err := filepath.Glob("/var/lib/capstan/journal/*")
			if err != nil || len(left) > 0 {
				t.Errorf("journals left after the leftovers were accepted: %v, %v", left, err)
			}
			keep.Close()
			shell(t, "umount /var/lib/kubelet/pods/a/volume; rm -rf /var/lib/kubelet")
			next := h.claimIt("#cloud-config\nruncmd: ['true']\n")
			h.waitBootstrap(t, next, v1beta2.BootstrapSucceeded)
			h.releaseIt(t, next)
			stop(t, agent)
			forget(t, "/var/lib/post")
		}
	})
}

// TestAHostThatIsToBeInstalledAnewStaysOut: the host stays out of use although its agent has cleaned it after a claim
// that ended while the agent was away.
func TestAHostThatIsToBeInstalledAnewStaysOut(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		agent := h.start(t, "")
		h.api.ClaimWith(func(c *v1beta2.HostClaim) { c.Proof = v1beta2.ProofReimage }, "0000000a", testData)
		const id = "capstan://default/h1/0000000a"
		h.waitBootstrap(t, id, v1beta2.BootstrapSucceeded)
		stop(t, agent)
		h.api.NextEpoch()
		agent = h.start(t, "")
		h.api.Wait(t, "a report that the host must be reinstalled", func(r *v1beta2.AgentReport) bool {
			return r.Carries == id && r.Cleaning != nil && r.Cleaning.Done &&
				slices.ContainsFunc(
					r.Cleaning.Leftovers,
					func(l string) bool { return strings.Contains(l, "must be reinstalled") },
				)
		})
		if len(running(t, "kubelet")) > 0 {
			t.Error("the kubelet still runs")
		}
		h.api.Change(func() { h.api.Host.Annotations = map[string]string{v1beta2.AcceptAnnotation: id} })
		h.waitCarries(t, "")
		stop(t, agent)
	})
}

// TestAJournalOfAnEarlierVersion: such a journal contains nothing about its claim, so nothing is cleaned. The next
// version of the agent adds the claim to the journal while the machine is still on the host.
func TestAJournalOfAnEarlierVersion(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		id := h.away(t)
		files, err := filepath.Glob("/var/lib/capstan/journal/*/steps.jsonl")
		if err != nil || len(files) != 1 {
			t.Fatal(files, err)
		}
		var before []string
		for line := range strings.Lines(content(files[0])) {
			if !strings.Contains(line, `"held by"`) {
				before = append(before, line)
			}
		}
		if err := os.WriteFile(files[0], []byte(strings.Join(before, "")), 0o600); err != nil {
			t.Fatal(err)
		}
		claim := h.api.Host.Spec.Claim
		h.api.NextEpoch()
		agent := h.start(t, "")
		h.api.Wait(t, "a report of the machine that is still on the host", func(r *v1beta2.AgentReport) bool {
			return r.Carries == id && r.Cleaning != nil
		})
		runsOn(t)
		stop(t, agent)

		h.api.Change(func() { h.api.Host.Spec.Claim = claim })
		agent = h.start(t, "")
		for end := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			views, err := journal.Look("/var/lib/capstan/journal")
			if err == nil && len(views) == 1 && len(views[0].Notes("held by")) == 1 {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("the claim is not noted: %v", err)
			}
		}
		stop(t, agent)
		h.api.NextEpoch()
		agent = h.start(t, "")
		h.waitFree(t, id)
		stop(t, agent)
	})
}

// TestAPlaneThatWasRestoredElsewhere: the host enrolls again with the plane at another address. The machine on the host
// keeps running untouched, and the agent works for the restored plane as before.
func TestAPlaneThatWasRestoredElsewhere(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		h.api.Change(func() { h.api.Host.UID = "uid" })
		id := h.away(t)
		calls := content("/var/log/calls")
		there := testapi.New(t)
		h.api.Mu.Lock()
		there.Change(func() { // without its status, as after a restore
			there.Host.UID, there.Host.Spec = h.api.Host.UID, *h.api.Host.Spec.DeepCopy()
		})
		h.api.Silent = true
		h.api.Mu.Unlock()
		if err := os.WriteFile(h.config, []byte(there.AgentConfig("/var/lib/capstan")), 0o600); err != nil {
			t.Fatal(err)
		}
		agent := h.start(t, "")
		h.api = there
		h.waitBootstrap(t, id, v1beta2.BootstrapSucceeded)
		h.waitCarries(t, id)
		runsOn(t)
		if now := content("/var/log/calls"); now != calls {
			t.Errorf("calls after the restore: %s", strings.TrimPrefix(now, calls))
		}
		h.releaseIt(t, id)
		checkClean(t)
		stop(t, agent)
	})
}
