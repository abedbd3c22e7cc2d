//go:build linux

package realtest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/capstan-dev/capstan/kube/cgroup"
	"github.com/capstan-dev/capstan/kube/cri"
	"github.com/capstan-dev/capstan/kube/cri/images"
	"github.com/capstan-dev/capstan/kube/network/nettest"
)

// killVariable names the step at which a server kills itself.
const killVariable = "CAPSTAN_TEST_KILL_AT"

// serveUntil runs a CRI server that is killed when it reaches a step.
func serveUntil(step string) int {
	flags := flag.NewFlagSet("server", flag.ContinueOnError)
	at := map[string]*string{}
	for _, name := range []string{"state", "listen", "images", "layers", "runner", "listen-hollow", "listen-real",
		"groups", "bundles"} {
		at[name] = flags.String(name, "", "")
	}
	flags.Bool("hollow", false, "")
	if err := flags.Parse(os.Args[1:]); err != nil {
		return 1
	}
	groups, err := cgroup.Open(*at["groups"])
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	server, err := cri.New(cri.Options{
		Groups: groups, State: *at["state"], Images: images.New(*at["images"], *at["layers"]), Runner: *at["runner"],
		Bundles: cri.Bundles{Dir: *at["bundles"]},
		Step: func(name string) {
			if name == step {
				unix.Kill(os.Getpid(), unix.SIGKILL)
				select {}
			}
		},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	path := strings.TrimPrefix(*at["listen"], "unix://")
	os.Remove(path)
	listener, err := net.Listen("unix", path)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	server.Serve(context.Background(), cri.Endpoint{Listener: listener})
	return 1
}

func shared(c *runtimeapi.PodSandboxConfig) {
	c.Linux.SecurityContext.NamespaceOptions.Pid = runtimeapi.NamespaceMode_POD
}

func withPort(port int32) func(*runtimeapi.PodSandboxConfig) {
	return func(c *runtimeapi.PodSandboxConfig) {
		shared(c)
		c.PortMappings = []*runtimeapi.PortMapping{{Protocol: runtimeapi.Protocol_UDP, ContainerPort: 53, HostPort: port}}
	}
}

// tryPod requests a pod.
func (h *host) tryPod(change func(*runtimeapi.PodSandboxConfig)) (string, error) {
	config := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: "pod", Namespace: "default", Uid: "uid"},
		Linux: &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
			NamespaceOptions: &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER},
		}},
	}
	if change != nil {
		change(config)
	}
	resp, err := h.RunPodSandbox(h.ctx, &runtimeapi.RunPodSandboxRequest{Config: config})
	return resp.GetPodSandboxId(), err
}

func (h *host) podStatus(id string) *runtimeapi.PodSandboxStatus {
	h.t.Helper()
	resp, err := h.PodSandboxStatus(h.ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: id})
	h.must(err)
	return resp.Status
}

// ips returns all addresses of a pod.
func (h *host) ips(id string) []string {
	h.t.Helper()
	st := h.podStatus(id).Network
	all := []string{st.Ip}
	for _, more := range st.AdditionalIps {
		all = append(all, more.Ip)
	}
	return all
}

func (h *host) removePod(id string) error {
	_, err := h.RemovePodSandbox(h.ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id})
	return err
}

func (h *host) networkReady() *runtimeapi.RuntimeCondition {
	h.t.Helper()
	resp, err := h.Status(h.ctx, &runtimeapi.StatusRequest{})
	h.must(err)
	for _, c := range resp.Status.Conditions {
		if c.Type == runtimeapi.NetworkReady {
			return c
		}
	}
	h.t.Fatal("the runtime reports no condition NetworkReady")
	return nil
}

func TestPodsWaitForTheNodesRange(t *testing.T) {
	h := newNode(t)
	if c := h.networkReady(); c.Status || c.Reason != "PodRangeUnknown" ||
		!strings.Contains(c.Message, "clusterNetwork.pods") {
		t.Errorf("without a range the network is %v", c)
	}
	if _, err := h.tryPod(nil); status.Code(err) != codes.Unavailable ||
		!strings.Contains(err.Error(), "no pod range yet") {
		t.Errorf("without a range a pod is refused with %v", err)
	}
	onHost, err := h.tryPod(func(c *runtimeapi.PodSandboxConfig) {
		c.Linux.SecurityContext.NamespaceOptions.Network = runtimeapi.NamespaceMode_NODE
	})
	if err != nil || h.podStatus(onHost).Network.Ip != "" {
		t.Errorf("a pod with the host's network: %v, %v", h.podStatus(onHost), err)
	}
	h.learn("10.244.9.0/24")
	if c := h.networkReady(); !c.Status {
		t.Errorf("with a range the network is %v", c)
	}
	id, err := h.tryPod(nil)
	h.must(err)
	if got := h.ips(id); !slices.Equal(got, []string{"10.244.9.2"}) {
		t.Errorf("the pod has the addresses %v", got)
	}
	h.kill()
	h.start()
	if c := h.networkReady(); !c.Status {
		t.Errorf("after a restart the network is %v", c)
	}
	h.learn("10.244.1.0/24,fd00:1::/64") // for the tests that follow
}

func TestPodsKeepAndFreeAddresses(t *testing.T) {
	h := newHost(t)
	before := nettest.Here(t).Dump()
	first, err := h.tryPod(withPort(5353))
	h.must(err)
	ips := h.ips(first)
	if !strings.HasPrefix(ips[0], "10.244.1.") || len(ips) != 2 || !strings.HasPrefix(ips[1], "fd00:1::") {
		t.Errorf("the pod has the addresses %v", ips)
	}
	if _, err := h.tryPod(withPort(5353)); err == nil ||
		!strings.Contains(err.Error(), "port 5353/udp of all addresses already leads to") {
		t.Errorf("two pods got the same port: %v", err)
	}
	h.kill()
	h.start()
	if now := h.ips(first); !slices.Equal(now, ips) ||
		h.podStatus(first).State != runtimeapi.PodSandboxState_SANDBOX_READY {
		t.Errorf("after a restart the pod is %v, its addresses were %v", h.podStatus(first), ips)
	}
	if _, err := h.tryPod(withPort(5353)); err == nil {
		t.Error("after a restart two pods got the same port")
	}
	second, err := h.tryPod(nil)
	h.must(err)
	if slices.ContainsFunc(h.ips(second), func(ip string) bool { return slices.Contains(ips, ip) }) {
		t.Errorf("two pods got the same address: %v, %v", ips, h.ips(second))
	}
	for range 2 {
		h.must(h.removePod(first))
	}
	third, err := h.tryPod(withPort(5353))
	h.must(err)
	h.must(h.removePod(second))
	h.must(h.removePod(third))
	if after := nettest.Here(t).Dump(); after != before {
		t.Errorf("the network is now\n%s\nbut before it was\n%s", after, before)
	}
}

// TestAPodThatHasLostItsCable checks that a pod is not Ready after a restart of the server if the pod's cable (its veth
// pair) is gone, and that the pod keeps its addresses until it is removed.
func TestAPodThatHasLostItsCable(t *testing.T) {
	h := newHost(t)
	id, err := h.tryPod(nil)
	h.must(err)
	ips := h.ips(id)
	h.kill()
	nettest.Here(t).RemoveLinks("pod-")
	h.start()
	if st := h.podStatus(id); st.State != runtimeapi.PodSandboxState_SANDBOX_NOTREADY {
		t.Errorf("the pod without a cable is %v, want it not ready", st)
	}
	other, err := h.tryPod(nil)
	h.must(err)
	if h.ips(other)[0] == ips[0] {
		t.Error("another pod got the address of a pod that still exists")
	}
}

func TestAHundredPodsAtOnce(t *testing.T) {
	h := newHost(t)
	before := nettest.Here(t).Dump()
	const pods = 100
	ids := make([]string, pods)
	all := func(do func(i int) error) time.Duration {
		began := time.Now()
		var wg sync.WaitGroup
		for i := range pods {
			wg.Go(func() {
				if err := do(i); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		return time.Since(began)
	}
	made := all(func(i int) (err error) {
		ids[i], err = h.tryPod(nil)
		return err
	})
	seen := map[string]bool{}
	for _, id := range ids {
		for _, ip := range h.ips(id) {
			if seen[ip] {
				t.Errorf("two pods got the address %s", ip)
			}
			seen[ip] = true
		}
	}
	if len(seen) != 2*pods {
		t.Errorf("%d pods have %d addresses", pods, len(seen))
	}
	removed := all(func(i int) error { return h.removePod(ids[i]) })
	t.Logf("%d pods: made in %s, removed in %s", pods, made, removed)
	if after := nettest.Here(t).Dump(); after != before {
		t.Errorf("the network is now\n%s\nbut before it was\n%s", after, before)
	}
}

// TestKilledAt kills a server at each step of creating and removing a pod. The next server must clean up what is left,
// and no two pods may get the same address.
func TestKilledAt(t *testing.T) {
	for _, step := range []string{"groups", "namespaces", "cable", "pod", "ports", "pause", "record"} {
		t.Run("made "+step, func(t *testing.T) {
			h := newHost(t)
			stays, err := h.tryPod(nil)
			h.must(err)
			before := nettest.Here(t).Dump()
			h.kill()
			h.start(killVariable + "=" + step)
			if _, err := h.tryPod(withPort(5353)); err == nil {
				t.Fatal("the server was not killed")
			}
			h.kill()
			h.start()
			list, err := h.ListPodSandbox(h.ctx, &runtimeapi.ListPodSandboxRequest{})
			if err != nil || len(list.Items) != 1 {
				t.Errorf("the pods are %v, %v; want one", list, err)
			}
			h.settled(stays, before)
		})
	}
	for _, step := range []string{"unmake", "no cable", "no ports", "free", "no namespaces", "no groups"} {
		t.Run("unmade "+step, func(t *testing.T) {
			h := newHost(t)
			stays, err := h.tryPod(nil)
			h.must(err)
			before := nettest.Here(t).Dump()
			goes, err := h.tryPod(withPort(5353))
			h.must(err)
			h.kill()
			h.start(killVariable + "=" + step)
			if h.removePod(goes) == nil {
				t.Fatal("the server was not killed")
			}
			h.kill()
			h.start()
			if st := h.podStatus(goes); st.State != runtimeapi.PodSandboxState_SANDBOX_NOTREADY {
				t.Errorf("the pod that was being removed is %v, want it not ready", st)
			}
			other, err := h.tryPod(nil)
			h.must(err)
			for _, ip := range h.ips(other) {
				if step != "no namespaces" && step != "no groups" && slices.Contains(h.ips(goes), ip) {
					t.Errorf("a pod got the address %s while another pod held it", ip)
				}
			}
			h.must(h.removePod(other))
			h.must(h.removePod(goes))
			h.settled(stays, before)
		})
	}
}

// settled checks that a pod works and that nothing else has changed.
func (h *host) settled(stays, before string) {
	h.t.Helper()
	if after := nettest.Here(h.t).Dump(); after != before {
		h.t.Errorf("the network is now\n%s\nbut before it was\n%s", after, before)
	}
	if dirs, _ := filepath.Glob(filepath.Join(h.dir, "state", "pods", "*")); len(dirs) != 1 {
		h.t.Errorf("there are the pod directories %v, want one", dirs)
	}
	if st := h.podStatus(stays); st.State != runtimeapi.PodSandboxState_SANDBOX_READY {
		h.t.Errorf("the pod that stays is %v", st)
	}
	again, err := h.tryPod(withPort(5353))
	h.must(err)
	if h.ips(again)[0] == h.ips(stays)[0] {
		h.t.Error("two pods got the same address")
	}
	h.must(h.removePod(again))
}
