package agent

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/agent/internal/testhost"
	"github.com/capstan-dev/capstan/api/v1beta2"
)

// waitEpoch waits until the agent reports that its token is bound to an epoch.
func (h *host) waitEpoch(t *testing.T, epoch int64) {
	t.Helper()
	h.api.Wait(t, "the epoch in the report", func(r *v1beta2.AgentReport) bool {
		return r.Epoch != nil && *r.Epoch == epoch
	})
}

// TestTheAgentFollowsTheEpochWhereverItIsKilled releases the host from one claim after another, and kills the agent at
// each step on the way to its next token. The agent recovers by itself, and keeps no token of an earlier epoch.
func TestTheAgentFollowsTheEpochWhereverItIsKilled(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		agent := h.start(t, "")
		h.waitEpoch(t, 0)
		for n, point := range []string{"", "token granted", "token kept"} {
			id := h.claimIt(testData)
			h.waitBootstrap(t, id, v1beta2.BootstrapSucceeded)
			stop(t, agent)
			agent = h.start(t, point)
			h.releaseIt(t, id)
			h.api.NextEpoch()
			if point != "" {
				killed(t, agent)
				agent = h.start(t, "")
			}
			epoch := int64(n + 1)
			h.waitEpoch(t, epoch)
			h.api.EndEpochs()
			kept := strings.TrimSpace(content("/var/lib/capstan/token"))
			h.api.Mu.Lock()
			accepted, denied := h.api.Tokens[kept], slices.Clone(h.api.Denied)
			h.api.Mu.Unlock()
			if !accepted || len(denied) > 0 {
				t.Fatalf("at point %q: the token on disk is accepted: %t; denied: %v", point, accepted, denied)
			}
		}
		id := h.claimIt(testData) // the agent keeps working
		h.waitBootstrap(t, id, v1beta2.BootstrapSucceeded)
		stop(t, agent)
	})
}

// TestAnAgentThatWasAwayForTooLong: an agent whose token has expired says what to do and does nothing to the host. It
// works again without a restart once somebody has enrolled the host again.
func TestAnAgentThatWasAwayForTooLong(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		agent := h.start(t, "")
		h.waitEpoch(t, 0)
		stop(t, agent)
		h.api.NextEpoch()
		h.api.EndEpochs()
		log := &wordWriter{logWriter: logWriter{t: t}, word: "enroll the host again", said: make(chan struct{})}
		agent = h.startTo(t, "", log)
		select {
		case <-log.said:
		case <-time.After(30 * time.Second):
			t.Fatal("the agent does not log what to do")
		}
		if err := os.WriteFile(h.config, []byte(h.api.AgentConfig("/var/lib/capstan")), 0o600); err != nil {
			t.Fatal(err)
		}
		h.waitEpoch(t, 1)
		stop(t, agent)
	})
}

// TestAManagementClusterBeforeEpochs: a management cluster whose version predates epochs binds no tokens. The agent
// works with it, and does not report fields that the cluster does not know. After an upgrade of the cluster, the agent
// gets a bound token at the next renewal.
func TestAManagementClusterBeforeEpochs(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		h.api.Change(func() { h.api.Epochs = nil })
		if err := os.WriteFile(h.config, []byte(h.api.AgentConfig("/var/lib/capstan")), 0o600); err != nil {
			t.Fatal(err)
		}
		agent := h.start(t, "")
		id := h.claimIt(testData)
		h.waitBootstrap(t, id, v1beta2.BootstrapSucceeded)
		granted := func() (n int) {
			h.api.Mu.Lock()
			defer h.api.Mu.Unlock()
			return len(h.api.Tokens)
		}
		before := granted()
		h.api.Mu.Lock()
		reported := h.api.Host.Status.Agent.Epoch
		h.api.Mu.Unlock()
		if reported != nil {
			t.Errorf("the agent reports epoch %d although its token is bound to no epoch", *reported)
		}
		stop(t, agent)
		h.api.Change(func() { h.api.Epochs = map[int64]bool{0: true} })
		agent = h.start(t, "")
		h.waitEpoch(t, 0)
		if n := granted() - before; n != 1 {
			t.Errorf("the agent asked for %d tokens, want 1", n)
		}
		stop(t, agent)
	})
}

// TestAnOfferIsTakenInTheEpochOfTheHost: the host and the agent's token have the same epoch in the target.
func TestAnOfferIsTakenInTheEpochOfTheHost(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		h.api.Host.UID = "uid"
		agent := h.start(t, "")
		h.waitEpoch(t, 0)
		h.api.NextEpoch()
		h.waitEpoch(t, 1)
		id := h.claimIt(testData)
		h.waitBootstrap(t, id, v1beta2.BootstrapSucceeded)
		there := newTarget(t)
		there.Change(func() { there.Host.Spec.Epoch, there.Epochs = 1, map[int64]bool{1: true} })
		offer := h.api.MakeOffer(there, "in epoch 1", nil)
		h.waitOffer(t, offer, "")
		h.arrive(there)
		h.leave(true)
		waitThere(t, there, id)
		there.Wait(t, "the epoch in the report to the target",
			func(r *v1beta2.AgentReport) bool { return r.Epoch != nil && *r.Epoch == 1 })
		unharmed(t, id)
		stop(t, agent)
	})
}

// wordWriter is a log that closes the channel said once a word has been written to the log.
type wordWriter struct {
	logWriter
	word string
	once sync.Once
	said chan struct{}
}

func (w *wordWriter) Write(data []byte) (int, error) {
	if bytes.Contains(data, []byte(w.word)) {
		w.once.Do(func() { close(w.said) })
	}
	return w.logWriter.Write(data)
}
