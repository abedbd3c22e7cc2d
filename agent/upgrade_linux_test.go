package agent

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/agent/enroll"
	"github.com/capstan-dev/capstan/agent/internal/testhost"
	"github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/internal/enrolment"
)

// program is the path, in the test's host, of an agent that may be replaced.
const program = "/opt/agent/capstan-agent"

// versionMark precedes the version at the end of a copy of the test binary, which is an agent of that version.
const versionMark = "\ncapstan-agent version "

// versionOf returns the version of an agent made by withVersion; dev for others.
func versionOf(path string) string {
	file, err := os.Open(path)
	fatal(err)
	defer file.Close()
	info, err := file.Stat()
	fatal(err)
	end := make([]byte, 64)
	_, err = file.ReadAt(end, info.Size()-int64(len(end)))
	fatal(err)
	if _, version, ok := strings.Cut(string(end), versionMark); ok {
		return version
	}
	return "dev"
}

// withVersion returns an agent of a version.
func withVersion(t *testing.T, version string) []byte {
	t.Helper()
	data, err := os.ReadFile(testhost.Binary)
	if err != nil {
		t.Fatal(err)
	}
	return append(data, versionMark+version...)
}

// offering is a host with agent v1.0.0, and a plane that offers another one.
type offering struct {
	*host
	fetched atomic.Int32
}

func offerAgent(t *testing.T, version string, agent []byte) *offering {
	t.Helper()
	o := &offering{host: newOwnedHost(t)}
	sum := sha256.Sum256(agent)
	plane := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case enrolment.VersionPath:
			fmt.Fprintf(w, `{"version":%q}`, version)
		case enrolment.AgentPath + runtime.GOARCH + enrolment.ChecksumSuffix:
			fmt.Fprintln(w, hex.EncodeToString(sum[:]))
		case enrolment.AgentPath + runtime.GOARCH:
			o.fetched.Add(1)
			_, _ = w.Write(agent)
		}
	}))
	t.Cleanup(plane.Close)
	// The plane and the API server have the same certificate. The plane has no bundles, because the host brings its own
	// programs.
	text := content(o.config) + "bundles: packages\nenrolment: " + plane.URL + "\n"
	if err := errors.Join(os.WriteFile(o.config, []byte(text), 0o600), makeKey("/var/lib/capstan")); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(program), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, withVersion(t, "v1.0.0"), 0o755); err != nil {
		t.Fatal(err)
	}
	return o
}

// makeKey creates the key that a host has after it enrolled.
func makeKey(stateDir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	return errors.Join(os.MkdirAll(stateDir, 0o700),
		os.WriteFile(filepath.Join(stateDir, enroll.KeyFile), text, 0o600))
}

// runs waits until an agent of a version has reported.
func (o *offering) runs(t *testing.T, version string) {
	t.Helper()
	o.api.Wait(t, "agent "+version, func(r *v1beta2.AgentReport) bool { return r.Version == version })
}

// becomes waits until a process is permanently an agent of a version: the program was replaced, and the process
// executes it.
func becomes(t *testing.T, pid int, version string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		at, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		if err == nil && at == program && versionOf(program) == version {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the agent is %s (%v), its program %s", at, err, versionOf(program))
		}
	}
}

// ownedData returns the bootstrap data for an owned host. Where the host has only one id, it creates no user, because a
// user's home on an owned host belongs to the user.
func ownedData() string {
	if testhost.OneID() {
		return strings.Replace(testData, "users:\n- name: bob\n", "", 1)
	}
	return testData
}

// TestAnAgentReplacesItself: the agent replaces itself with the one that the plane offers while a machine is on the
// host, and stays the process that the service manager knows.
func TestAnAgentReplacesItself(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		o := offerAgent(t, "v1.1.0", withVersion(t, "v1.1.0"))
		id := o.claimIt(ownedData())
		agent := o.startProgram(t, program, "", &logWriter{t: t})
		o.waitBootstrap(t, id, v1beta2.BootstrapSucceeded)
		o.runs(t, "v1.1.0")
		becomes(t, agent.Process.Pid, "v1.1.0")
		waitKubelet(t)
		if got := versionOf(program + ".previous"); got != "v1.0.0" {
			t.Errorf("the previous program is %s", got)
		}
		o.releaseIt(t, id)
		checkClean(t)
		stop(t, agent)
	})
}

// TestAKilledUpgrade: wherever the agent is killed, its next start continues, and in the end the new agent runs.
func TestAKilledUpgrade(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		for _, point := range []string{
			"agent fetched", "trial recorded", "trial started", "trial reported", "program replaced", "trial ended",
		} {
			o := offerAgent(t, "v1.1.0", withVersion(t, "v1.1.0"))
			t.Logf("killed: %s", point)
			killed(t, o.startProgram(t, program, point, &logWriter{t: t}))
			agent := o.startProgram(t, program, "", &logWriter{t: t})
			o.runs(t, "v1.1.0")
			becomes(t, agent.Process.Pid, "v1.1.0")
			_, _ = agent.Process.Kill(), agent.Wait() // the agent may not handle signals yet
			if err := os.RemoveAll("/var/lib/capstan"); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// logBuffer stores an agent's log.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(data []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(data)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func (b *logBuffer) count(text string) int { return strings.Count(b.String(), text) }

// TestABrokenAgentDoesNotStay: the previous agent comes back if the new one doesn't report, and does not retry the
// new one endlessly. A host whose policy is Manual keeps its agent.
func TestABrokenAgentDoesNotStay(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		broken := []byte("#!/bin/sh\n[ \"$1\" = --version ] && { echo capstan-agent v1.1.0; exit; }\n" +
			"echo tried >> /var/log/tried\nexit 1\n")
		o := offerAgent(t, "v1.1.0", broken)
		o.api.Change(func() { o.api.Host.Spec.AgentUpgrade = v1beta2.AgentUpgradeManual })
		var log logBuffer
		agent := o.startProgram(t, program, "", &log)
		o.runs(t, "v1.0.0")
		if n := o.fetched.Load(); n > 0 {
			t.Errorf("the new agent was fetched %d times although the policy is Manual", n)
		}
		o.api.Change(func() { o.api.Host.Spec.AgentUpgrade = v1beta2.AgentUpgradeAutomatic })
		const kept = "this agent keeps running"
		for end := time.Now().Add(2 * time.Minute); log.count(kept) < 2; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("there was no second trial: %s", &log)
			}
		}
		id := o.claimIt(ownedData())
		o.waitBootstrap(t, id, v1beta2.BootstrapSucceeded)
		o.releaseIt(t, id)
		if got := content("/var/log/tried"); got != "tried\ntried\n" || versionOf(program) != "v1.0.0" {
			t.Errorf("the trials wrote %q, and the program is %s\n%s", got, versionOf(program), &log)
		}
		stop(t, agent)
	})
}
