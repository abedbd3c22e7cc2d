//go:build linux

package software

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/test/asuser"
	"github.com/capstan-dev/capstan/test/images"
)

const (
	// selected is the variable that enables these tests: they download packages and take minutes.
	selected = "CAPSTAN_TEST_SOFTWARE"
	// user is the ordinary user, nobody.
	user = 65534
	// limit is the time limit for everything at one level; wait is the time limit for the start of one pod.
	limit = 20 * time.Minute
	wait  = 3 * time.Minute
)

// TestSoftware runs the software on clusters of root, of an ordinary user with subordinate ids, and of an ordinary user
// with one id.
func TestSoftware(t *testing.T) {
	if os.Getenv(selected) == "" && !asuser.Is() {
		t.Skip("takes minutes: make test-software runs it")
	}
	if asuser.Is() {
		testLevel(t)
		return
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := images.Make(t.Context(), root, layouts(root), "software", func(text string) { t.Log(text) }); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() != 0 {
		t.Run("this user", testLevel)
		return
	}
	t.Run("root", testLevel)
	for name, subordinate := range map[string]bool{"subordinate ids": true, "one id": false} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			err := asuser.Run(t.Context(), asuser.Options{
				ID: user, Subordinate: subordinate, Dir: filepath.Join(root, "test", "software"),
				Args: []string{"-test.run=^TestSoftware$", "-test.v", "-test.timeout=" + limit.String()},
				Out:  &out, Errs: &out,
			})
			t.Logf("%s", out.Bytes())
			if err != nil {
				t.Error(err)
			}
		})
	}
}

func layouts(root string) string { return filepath.Join(root, "bin", "testimages") }

// cluster is a management plane with a cluster of this user.
type cluster struct {
	*testing.T
	capstan, home string
}

// testLevel runs the software as the user of this process, with the ids that its hosts get.
func testLevel(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{T: t, capstan: filepath.Join(root, "bin", "capstan"), home: t.TempDir()}
	t.Cleanup(func() { c.must("down", "--delete") })
	c.must("up", "--hosts", "2")
	c.must("image", "load", filepath.Join(layouts(root), "software"))
	c.must("cluster", "create", "soft", "--control-plane", "1", "--workers", "1")
	one := c.kubectl("get", "nodes", "-o", `jsonpath={.items[0].metadata.labels.capstan\.dev/ids}`) == "one"
	t.Logf("hosts have one id: %v", one)
	for _, s := range programs {
		for _, own := range []bool{false, true} {
			name := s.name
			if own {
				name += " as its own user"
			}
			t.Run(name, func(t *testing.T) {
				c := &cluster{T: t, capstan: c.capstan, home: c.home}
				pod := c.start(s, own)
				if one && !own && s.changes {
					c.refused(pod)
					return
				}
				c.ready(pod)
				s.use(c, pod)
			})
		}
	}
}

// try runs capstan and returns its output.
func (c *cluster) try(args ...string) (string, error) {
	c.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.capstan, args...)
	cmd.Env = append(os.Environ(), "CAPSTAN_HOME="+c.home)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("capstan %s: %w: %s", strings.Join(args, " "), err, said.Bytes())
	}
	return strings.TrimSpace(string(out)), nil
}

func (c *cluster) must(args ...string) string {
	c.Helper()
	out, err := c.try(args...)
	if err != nil {
		c.Fatal(err)
	}
	return out
}

func (c *cluster) kubectl(args ...string) string {
	c.Helper()
	return c.must(append([]string{"kubectl", "--cluster", "soft"}, args...)...)
}

// start creates a pod that runs a program as its image says, or, if own is set, as the program's user from the start.
func (c *cluster) start(s program, own bool) (pod string) {
	c.Helper()
	pod = s.name
	security := map[string]any{}
	if own {
		pod += "-own"
		security = map[string]any{"runAsUser": s.uid, "runAsGroup": s.uid, "fsGroup": s.uid}
	}
	container := map[string]any{
		"name": "main", "image": s.image,
		"readinessProbe": map[string]any{"tcpSocket": map[string]any{"port": s.port}, "periodSeconds": 1},
	}
	if s.web {
		container["readinessProbe"] = map[string]any{
			"httpGet": map[string]any{"port": s.port, "path": "/"}, "periodSeconds": 1,
		}
	}
	var volumes, mounts []any
	for i, dir := range s.writes {
		name := fmt.Sprintf("writes-%d", i)
		volumes = append(volumes, map[string]any{"name": name, "emptyDir": map[string]any{}})
		mounts = append(mounts, map[string]any{"name": name, "mountPath": dir})
	}
	if own { // Only root may write to other places in an image.
		container["volumeMounts"] = mounts
	}
	manifest, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": pod},
		"spec": map[string]any{
			"securityContext": security, "containers": []any{container}, "volumes": volumes,
			"terminationGracePeriodSeconds": 1,
		},
	})
	if err != nil {
		c.Fatal(err)
	}
	file := filepath.Join(c.TempDir(), "pod.json")
	if err := os.WriteFile(file, manifest, 0o600); err != nil {
		c.Fatal(err)
	}
	c.kubectl("apply", "-f", file)
	c.Cleanup(func() { c.kubectl("delete", "pod", pod, "--wait=false") })
	return pod
}

// ready waits for a pod.
func (c *cluster) ready(pod string) {
	c.Helper()
	_, err := c.try("kubectl", "--cluster", "soft", "wait", "--for=condition=Ready", "pod/"+pod,
		"--timeout="+wait.String())
	if err != nil {
		state := c.kubectl("get", "pod", pod, "-o", "jsonpath={.status.containerStatuses}")
		logs, _ := c.try("kubectl", "--cluster", "soft", "logs", pod)
		c.Fatalf("%v\n%s\n%s", err, state, logs)
	}
}

// refused waits until a pod that changes its user has failed for lack of ids, and checks that the pod's message says
// so.
func (c *cluster) refused(pod string) {
	c.Helper()
	var said string
	for deadline := time.Now().Add(wait); time.Now().Before(deadline); time.Sleep(time.Second) {
		const last = "jsonpath={.status.containerStatuses[0]['state','lastState'].terminated.message}"
		said = c.kubectl("get", "pod", pod, "-o", last)
		if strings.Contains(said, advice) {
			return
		}
	}
	c.Errorf("the pod says %q, want %q", said, advice)
}
