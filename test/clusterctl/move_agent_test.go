//go:build linux

package clusterctl

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	upstream "sigs.k8s.io/cluster-api/cmd/clusterctl/client"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/agent/journal"
	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl"
	"github.com/capstan-dev/capstan/provider/epoch"
)

// leaderChange is how long a Kubernetes control plane may normally be without a leader. It is the longest time that may
// pass between two answers of a machine that moves.
const leaderChange = 15 * time.Second

// moveWithAgent moves the cluster from one side to the other with the real agent on its host: the library hands the
// agent over, and the real clusterctl moves the cluster. The agent, the mover and both API servers are killed on the
// way. The machine on the host answers throughout, and in the end everything is on one side.
func moveWithAgent(t *testing.T, from, to side, host string, claim infrav1.HostClaim) {
	t.Helper()
	m := &clusterv1.Machine{}
	from.has(m, "m1")
	m.Status.NodeRef = clusterv1.MachineNodeReference{Name: "m1"}
	from.must(from.api.Status().Update(t.Context(), m))
	all := from.census()

	c := newComputer(t, from.port(), to.port())
	from.enroll(c, host, claim)
	c.start("")
	from.until("the agent reports", func() bool { return live(from.host(host)) })

	// Hand over an agent that dies after it has stored the offer and before it reports that.
	c.kill()
	c.start("next written")
	handed := make(chan error, 1)
	capstan, err := clusterctl.Open(t.Context(), clusterctl.Options{
		Kubeconfig: from.kubeconfig, Config: from.config, Version: current,
	})
	from.must(err)
	handOver := clusterctl.HandOver{Namespace: "blue", To: upstream.Kubeconfig{Path: to.kubeconfig}, Timeout: patience}
	go func() {
		err := capstan.HandOver(t.Context(), handOver)
		if err != nil {
			t.Errorf("handing over: %v", err) // without an offer, the agent doesn't exit
		}
		handed <- err
	}()
	c.gone()
	c.start("")
	from.must(<-handed)
	offer := from.host(host).Offer()
	from.must(capstan.HandOver(t.Context(), handOver))
	if again := from.host(host).Offer(); offer == "" || again != offer {
		t.Errorf("an offer that was accepted was made again: %q, then %q", offer, again)
	}

	// Call off, and hand over again.
	offers, err := capstan.CallOff(t.Context(), handOver)
	from.must(err)
	if offers != 1 {
		t.Errorf("%d offers were called off, want 1", offers)
	}
	if _, err := os.Stat(c.path("var/lib/capstan/next.yaml")); err == nil ||
		to.has(&corev1.ServiceAccount{}, infrav1.IdentityPrefix+host) {
		t.Error("something is left of a hand-over that was called off")
	}
	from.must(capstan.HandOver(t.Context(), handOver))

	// The mover dies as soon as the host has arrived; then the API server of the source dies.
	mover := from.mover(to)
	from.until("the host arrives", func() bool { return to.has(&infrav1.CapstanHost{}, host) })
	mover.kill()
	restart := from.killAPI()
	restart()
	if !from.has(&infrav1.CapstanHost{}, host) {
		t.Log("the mover was killed late: the host has left already")
	} else if live(to.host(host)) {
		t.Error("the agent works for the target although its host is still in the source")
	}

	// The agent dies when it sees that the host has moved, and the target's API server dies while the agent is down.
	c.kill()
	c.start("changing sides")
	from.resume()
	from.run("move", "--namespace", "blue", "--to-kubeconfig", to.kubeconfig)
	c.gone()
	restart = to.killAPI()
	c.start("")
	restart()
	to.until("the agent works for the target", func() bool {
		h := to.host(host)
		return live(h) && h.Status.Agent.Bootstrap != nil && h.Status.Agent.Bootstrap.ProviderID == claim.ProviderID &&
			h.Status.Agent.Bootstrap.Phase == infrav1.BootstrapSucceeded
	})
	to.resume() // if the first mover had already moved the Cluster
	to.initialized()

	same(t, "with the agent, in the target", to.census(), all)
	same(t, "with the agent, in the source", from.census(), nil)
	if from.has(&infrav1.CapstanHost{}, host) {
		t.Error("the host is still in the source")
	}
	h := to.host(host)
	if h.Spec.Claim == nil || !reflect.DeepEqual(*h.Spec.Claim, claim) || h.Status.Agent.Cleaning != nil {
		t.Errorf("after the move, the claim is %+v, cleaning %+v; want the same claim, and no cleaning", h.Spec.Claim,
			h.Status.Agent.Cleaning)
	}
	to.until("the machine is provisioned in the target", to.provisioned)
	c.unharmed(claim)
}

// live reports whether the real agent has reported.
func live(h *infrav1.CapstanHost) bool {
	return h.Status.Agent != nil && h.Status.Agent.Version == "live" && h.Status.Agent.BootID != ""
}

// settings returns the client configuration of a side's administrator.
func (s side) settings() *rest.Config {
	s.Helper()
	settings, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	s.must(err)
	return settings
}

// port returns the API server's port on loopback.
func (s side) port() string {
	s.Helper()
	u, err := url.Parse(s.settings().Host)
	s.must(err)
	return u.Port()
}

// enroll makes the computer a host of a side, with a machine that already runs on it, as after a bootstrap.
func (s side) enroll(c *computer, host string, claim infrav1.HostClaim) {
	s.Helper()
	request := epoch.TokenRequest(s.host(host), time.Hour)
	account := &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: infrav1.IdentityPrefix + host},
	}
	s.must(s.api.SubResource("token").Create(s.Context(), account, request))
	settings := s.settings()
	text, err := yaml.Marshal(map[string]any{
		"server": settings.Host, "caData": string(settings.CAData), "namespace": "blue", "host": host,
		"token": request.Status.Token, "local": true,
	})
	s.must(err)
	s.must(os.WriteFile(c.path("etc/capstan/agent.yaml"), text, 0o600))
	j, err := journal.Open(c.path("var/lib/capstan/journal"), claim.ProviderID)
	s.must(err)
	s.must(j.Start("runcmd 1/1", "mark"))
	s.must(j.Finish("runcmd 1/1", 0))
	s.must(j.Succeed(""))
	s.must(j.Close())
	s.must(os.WriteFile(c.path("etc/kubernetes/kubelet.conf"), []byte("of the machine"), 0o600))
}

// unharmed fails the test if the machine on the computer was disturbed, or if a token is in the wrong place.
func (c *computer) unharmed(claim infrav1.HostClaim) {
	c.t.Helper()
	c.mu.Lock()
	c.t.Logf("RESULT the longest time between two answers of the machine: %s", c.worst.Round(time.Millisecond))
	if c.lost > 0 || c.worst == 0 || c.worst > leaderChange {
		c.t.Errorf("the machine did not answer %d times, and for up to %s", c.lost, c.worst)
	}
	c.mu.Unlock()
	if text, err := os.ReadFile(c.path("etc/kubernetes/kubelet.conf")); err != nil || string(text) != "of the machine" {
		c.t.Errorf("the kubelet.conf of the machine has changed: %q, %v", text, err)
	}
	c.kill() // the agent has its journal (the record of its work) open
	j, err := journal.Open(c.path("var/lib/capstan/journal"), claim.ProviderID)
	if err != nil {
		c.t.Fatal(err)
	}
	defer j.Close()
	if cleaned, left := j.Cleaned(); cleaned || len(left) > 0 || !j.Outcome().Succeeded ||
		j.Step("runcmd 1/1").Starts != 1 {
		c.t.Errorf("the journal says cleaned: %t, outcome %+v; want one bootstrap, and no cleaning", cleaned,
			j.Outcome())
	}
	log, err := os.ReadFile(c.path("var/log/agent.log"))
	if err != nil || bytes.Contains(log, []byte("eyJ")) {
		c.t.Errorf("the agent's log contains a token, or can't be read: %v", err)
	}
	files, err := filepath.Glob(c.path("var/lib/capstan/*"))
	if err != nil {
		c.t.Fatal(err)
	}
	for _, path := range files {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
			c.t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
}

// killAPI kills the API server of a side with SIGKILL. It returns a function that starts the server again, with the
// same etcd, and waits until the server answers.
func (s side) killAPI() (restart func()) {
	s.Helper()
	pid, args := s.processOfAPI()
	if pid == 0 {
		s.Fatal("the process of the API server was not found")
	}
	process, err := os.FindProcess(pid)
	s.must(err)
	s.must(process.Kill())
	s.until("the API server has ended", func() bool {
		now, _ := s.processOfAPI()
		return now == 0
	})
	// Other threads of the killed process may hold the socket a moment longer.
	s.until("the port of the API server is free", func() bool {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", s.port()))
		return err == nil && l.Close() == nil
	})
	return func() {
		s.Helper()
		var output bytes.Buffer
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Stdout, cmd.Stderr = &output, &output
		s.must(cmd.Start())
		exited := make(chan struct{})
		go func() { _ = cmd.Wait(); close(exited) }()
		s.Cleanup(func() { _ = cmd.Process.Kill(); <-exited })
		s.until("the API server answers again", func() bool {
			select {
			case <-exited:
				s.Fatalf("the API server has exited: %v\n%s", cmd.ProcessState, output.String())
			default:
			}
			ctx, cancel := context.WithTimeout(s.Context(), 10*time.Second)
			defer cancel()
			return s.api.Get(ctx, client.ObjectKey{Name: "blue"}, &corev1.Namespace{}) == nil
		})
	}
}

// processOfAPI finds the API server among the children of this process. The pid is 0 if it is not there.
func (s side) processOfAPI() (pid int, args []string) {
	s.Helper()
	entries, err := os.ReadDir("/proc")
	s.must(err)
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // empty for a process that has exited
		if !strings.Contains(string(status), fmt.Sprintf("PPid:\t%d\n", os.Getpid())) ||
			!strings.Contains(string(line), "--secure-port="+s.port()+"\x00") {
			continue
		}
		return pid, strings.Split(strings.TrimRight(string(line), "\x00"), "\x00")
	}
	return 0, nil
}
