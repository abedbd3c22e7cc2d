package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/agent/internal/testhost"
	"github.com/capstan-dev/capstan/agent/journal"
	"github.com/capstan-dev/capstan/api/v1beta2"
)

// journalOf returns the path of a claim's record file.
func journalOf(t *testing.T, id string) string {
	t.Helper()
	found, err := filepath.Glob("/var/lib/capstan/journal/*" + id[len(id)-8:] + "*/steps.jsonl")
	if err != nil || len(found) != 1 {
		t.Fatalf("journals: %q, %v", found, err)
	}
	return found[0]
}

// damage makes the first line that contains a text unreadable.
func damage(t *testing.T, path, text string) {
	t.Helper()
	before, after, found := strings.Cut(content(path), text)
	if !found {
		t.Fatalf("%s has no %s", path, text)
	}
	if err := os.WriteFile(path, []byte(before+"\x01"+text+after), 0o600); err != nil {
		t.Fatal(err)
	}
}

// waitDamaged waits until a damaged journal is reported as a leftover, and deletes it like somebody who has inspected
// the host.
func (h *host) waitDamaged(t *testing.T, id string) {
	t.Helper()
	aside := ""
	h.api.Wait(t, "the damaged journal", func(r *v1beta2.AgentReport) bool {
		if r.Cleaning == nil || r.Cleaning.ProviderID != id || !r.Cleaning.Done || len(r.Cleaning.Leftovers) != 1 {
			return false
		}
		path, found := strings.CutPrefix(r.Cleaning.Leftovers[0], "path ")
		aside, _, _ = strings.Cut(path, ": ")
		return found && strings.HasSuffix(aside, "steps.jsonl.damaged")
	})
	if err := os.Remove(aside); err != nil {
		t.Fatal(err)
	}
}

func TestADamagedJournalIsLeftForAPerson(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		agent := h.start(t, "")
		id := h.claimIt(testData)
		h.waitBootstrap(t, id, v1beta2.BootstrapSucceeded)
		stop(t, agent)
		damage(t, journalOf(t, id), `"event":"finish","step":"runcmd 2/3"`)
		agent = h.start(t, "")
		h.api.Wait(t, "the facts", func(r *v1beta2.AgentReport) bool { return r.BootID != "" })
		h.waitBootstrap(t, id, v1beta2.BootstrapSucceeded) // according to what can be read
		h.api.Change(func() { h.api.Host.Spec.Claim.Released = true })
		h.waitDamaged(t, id)
		h.waitClean(t, id)
		checkClean(t)
		stop(t, agent)
	})
}

func TestADamagedJournalOfAnotherClaim(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		agent := h.start(t, "")
		first := h.claimIt(testData)
		h.waitBootstrap(t, first, v1beta2.BootstrapSucceeded)
		stop(t, agent)
		damage(t, journalOf(t, first), `"event":"open"`)
		agent = h.start(t, "")
		second := h.claimIt(testData)
		if got := h.waitBootstrap(t, second, v1beta2.BootstrapFailed); !strings.Contains(got.Message,
			"the host still has the machine of an unknown claim") {
			t.Errorf("report %+v", got)
		}
		h.api.Change(func() { h.api.Host.Spec.Claim.Released = true })
		h.waitDamaged(t, second)
		h.waitClean(t, second)
		checkClean(t)
		third := h.claimIt(testData)
		h.waitBootstrap(t, third, v1beta2.BootstrapSucceeded)
		stop(t, agent)
	})
}

func TestABootstrapWhoseJournalIsDamagedOrFullFails(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		for message, spoil := range map[string]func(id string){
			"the journal is damaged at byte": func(id string) {
				damage(t, journalOf(t, id), `"event":"finish","step":"bundle"`)
			},
			"the journal is full": func(id string) {
				j, err := journal.Open("/var/lib/capstan/journal", id)
				if err != nil {
					t.Fatal(err)
				}
				for size := 1 << 20; size > 0; size /= 2 {
					for i := 0; err == nil; i++ {
						err = j.Note("filler", fmt.Sprint(size, i, strings.Repeat("x", size)))
					}
					err = nil
				}
				if err := j.Close(); err != nil {
					t.Fatal(err)
				}
			},
		} {
			id := h.claimIt(testData)
			killed(t, h.start(t, "finished write_files"))
			spoil(id)
			agent := h.start(t, "")
			if got := h.waitBootstrap(t, id, v1beta2.BootstrapFailed); got.Step != "journal" ||
				!strings.Contains(got.Message, message) {
				t.Errorf("report %+v", got)
			}
			h.api.Change(func() { h.api.Host.Spec.Claim.Released = true })
			if strings.Contains(message, "damaged") {
				h.waitDamaged(t, id)
			}
			h.waitClean(t, id)
			checkClean(t)
			stop(t, agent)
		}
	})
}

// The agent reports why a task has no result, and continues once nothing prevents the result.
func TestAJournalThatCantBeOpenedIsReported(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		blocked := func() {
			t.Helper()
			// in place of the directory of all journals
			if err := os.WriteFile("/var/lib/capstan/journal", nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.MkdirAll("/var/lib/capstan", 0o700); err != nil {
			t.Fatal(err)
		}
		blocked()
		agent := h.start(t, "")
		id := h.claimIt("#cloud-config\n")
		h.api.Wait(t, "the reason in the report", func(r *v1beta2.AgentReport) bool {
			return r.Bootstrap != nil && r.Bootstrap.Phase == v1beta2.BootstrapRunning &&
				strings.Contains(r.Bootstrap.Message, "opening the journal")
		})
		forget(t, "/var/lib/capstan/journal")
		h.waitBootstrap(t, id, v1beta2.BootstrapSucceeded)
		stop(t, agent) // the agent always opens the journal, which creates the directory
		if err := os.RemoveAll("/var/lib/capstan/journal"); err != nil {
			t.Fatal(err)
		}
		blocked()
		agent = h.start(t, "")
		h.api.Change(func() { h.api.Host.Spec.Claim.Released = true })
		h.api.Wait(t, "the reason in the report", func(r *v1beta2.AgentReport) bool {
			return r.Cleaning != nil && r.Cleaning.Done && len(r.Cleaning.Leftovers) == 1 &&
				strings.Contains(r.Cleaning.Leftovers[0], "opening the journal")
		})
		forget(t, "/var/lib/capstan/journal")
		h.waitClean(t, id)
		stop(t, agent)
	})
}

// If a claim follows immediately, the worker has no time without a claim in which to remove old journals.
func TestOldJournalsGoAlsoWhenClaimsFollowAtOnce(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		agent := h.start(t, "")
		id := h.claimIt("#cloud-config\nruncmd: [\"true\"]\n")
		h.waitBootstrap(t, id, v1beta2.BootstrapSucceeded)
		h.api.Change(func() { h.api.Host.Spec.Claim.Released = true })
		h.api.Wait(t, "a clean host", func(r *v1beta2.AgentReport) bool {
			return r.Cleaning != nil && r.Cleaning.ProviderID == id && r.Cleaning.Done
		})
		id = h.claimIt("#cloud-config\nruncmd: [\"true\"]\n")
		h.waitBootstrap(t, id, v1beta2.BootstrapSucceeded)
		journalOf(t, id)
		if all, err := os.ReadDir("/var/lib/capstan/journal"); err != nil || len(all) != 1 {
			t.Errorf("journals: %v, %v", all, err)
		}
		stop(t, agent)
	})
}
