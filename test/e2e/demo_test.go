package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/dock"
)

// TestDemo runs the demo, which prints what a web server in a pod answers through its Service. Then each Ready
// container, except control plane components, must have a process of its image in its own namespaces.
func TestDemo(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "../../hack/demo")
	cmd.Env = append(os.Environ(), "CAPSTAN_HOME="+homeDir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(string(out), "-- /web get http://web/\nweb-") {
		t.Errorf("no web server answered:\n%s", out)
	}
	must(t, "kubectl", "--cluster", "demo", "-n", "kube-system", "rollout", "status", "deployment/metrics-api",
		"--timeout=120s")
	programs := map[string]string{
		"web": "/web", "ask": "/web", "coredns": "/coredns", "kube-proxy": "/usr/local/bin/kube-proxy",
		"metrics-api": "/metrics-api",
	}
	count := map[string]int{}
	for _, c := range readyContainers(t, "demo") {
		count[c.name]++
		if err := c.isReal(programs[c.name]); err != nil {
			t.Errorf("container %s of pod %s: %v", c.name, c.pod, err)
		}
	}
	want := map[string]int{"web": 2, "ask": 1, "coredns": 2, "kube-proxy": 3, "metrics-api": 1}
	if fmt.Sprint(count) != fmt.Sprint(want) {
		t.Errorf("Ready containers are %v, want %v", count, want)
	}
	must(t, "cluster", "delete", "demo")
}

// container is a Ready container of a pod that was requested from the API server.
type container struct {
	pod, name, id string
	host          dock.Host
}

// readyContainers returns the Ready containers of a cluster, except those of static pods.
func readyContainers(t *testing.T, cluster string) []container {
	t.Helper()
	status, err := dock.Connect(homeDir).Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pods := decode[struct {
		Items []struct {
			Metadata struct {
				Name        string
				Annotations map[string]string
			}
			Status struct {
				HostIP            string
				ContainerStatuses []struct {
					Name, ContainerID string
					Ready             bool
				}
			}
		}
	}](t, "kubectl", "--cluster", cluster, "get", "pods", "-A")
	var all []container
	for _, pod := range pods.Items {
		i := slices.IndexFunc(status.Hosts, func(h dock.Host) bool { return h.Address == pod.Status.HostIP })
		if _, static := pod.Metadata.Annotations["kubernetes.io/config.mirror"]; static || i < 0 {
			continue
		}
		for _, c := range pod.Status.ContainerStatuses {
			if c.Ready {
				_, id, _ := strings.Cut(c.ContainerID, "://")
				all = append(all, container{pod.Metadata.Name, c.Name, id, status.Hosts[i]})
			}
		}
	}
	return all
}

// isReal returns nil if the container's process runs this program in its own mount and PID namespaces, with its own
// root.
func (c container) isReal(program string) error {
	data, err := os.ReadFile(filepath.Join(c.host.Root, "var/lib/capstan/cri/containers", c.id, "running.json"))
	if err != nil {
		return err
	}
	var report struct{ PID int }
	if err := json.Unmarshal(data, &report); err != nil {
		return err
	}
	host := fmt.Sprint("/proc/", c.host.PID)
	proc, err := outside(host, report.PID)
	if err != nil {
		return err
	}
	if exe, err := os.Readlink(proc + "/exe"); err != nil || exe != program {
		return fmt.Errorf("its process runs %q (%v), want %q", exe, err, program)
	}
	for _, kind := range []string{"mnt", "pid"} {
		hosts, err1 := os.Readlink(host + "/ns/" + kind)
		own, err2 := os.Readlink(proc + "/ns/" + kind)
		if err1 != nil || err2 != nil || hosts == own {
			return fmt.Errorf("its %s namespace is %q (%v), the host's %q (%v)", kind, own, err2, hosts, err1)
		}
	}
	roots := [2]os.FileInfo{}
	for i, p := range []string{host, proc} {
		if roots[i], err = os.Stat(p + "/root/"); err != nil {
			return err
		}
	}
	if os.SameFile(roots[0], roots[1]) {
		return fmt.Errorf("its root is the host's")
	}
	return nil
}

// outside finds a process by its id in a host's PID namespace. It returns the directory of that process in this
// machine's /proc.
func outside(host string, pid int) (string, error) {
	level := len(statusLine(host, "NSpid:")) - 1
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return "", err
	}
	for _, proc := range all {
		if ids := statusLine(proc, "NSpid:"); len(ids) > level && ids[level] == strconv.Itoa(pid) && isBelow(proc, host) {
			return proc, nil
		}
	}
	return "", fmt.Errorf("the host has no process %d", pid)
}

// isBelow reports whether a process descends from another.
func isBelow(proc, ancestor string) bool {
	for parent := statusLine(proc, "PPid:"); len(parent) == 1; parent = statusLine(proc, "PPid:") {
		if proc = "/proc/" + parent[0]; proc == ancestor {
			return true
		}
	}
	return false
}

// statusLine returns the words of a line of a process's status, or none if the process is gone.
func statusLine(proc, name string) []string {
	data, _ := os.ReadFile(proc + "/status")
	for line := range strings.Lines(string(data)) {
		if words := strings.Fields(line); len(words) > 0 && words[0] == name {
			return words[1:]
		}
	}
	return nil
}
