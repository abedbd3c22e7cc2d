//go:build linux

package attack

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// extensionSays lists the attempts of an extension. Each names the handler in hostile_test.go that gives the hostile
// answer.
var extensionSays = []struct{ mechanism, answer, hook string }{
	{"never answer", "hang", "BeforeClusterCreate"},
	{"answer a byte at a time", "drip", "BeforeClusterCreate"},
	{"answer without end", "endless", "BeforeClusterCreate"},
	{"answer with JSON of 100,000 levels", "deep", "BeforeClusterCreate"},
	{"send the caller to the plane's etcd", "redirect", "BeforeClusterCreate"},
	{"give the answer to another hook", "another", "BeforeClusterCreate"},
	{"break the connection in the middle of an answer", "cut", "BeforeClusterCreate"},
	{"answer with a page of HTML", "html", "BeforeClusterCreate"},
	{"send a message with control characters for terminals", "bell", "BeforeClusterCreate"},
	{"double a template 22 times with copy operations", "copies", "GeneratePatches"},
	{"send 100,000 operations", "operations", "GeneratePatches"},
	{"register handlers without end", "registrations", "discovery"},
}

// hostile returns attempts of extensions against the plane. Each has a cluster of its own in the other tenant's
// namespace, and may stop only that cluster.
func hostile() []attempt {
	const boundary = "an extension has its bounds"
	var list []attempt
	for _, e := range extensionSays {
		list = append(list, attempt{
			boundary: boundary, who: extension, mechanism: e.mechanism,
			try: func(ctx context.Context, w *world) error { return w.provoke(ctx, e.answer, e.hook) },
			control: func(ctx context.Context, w *world) error {
				w.friendly.Do(func() { w.friendlyErr = w.welcome(ctx) })
				return w.friendlyErr
			},
		})
	}
	return list
}

const (
	// planeMemory limits the size of the manager during an attempt, in bytes.
	planeMemory = 700 << 20
	// othersLimit limits how long others may wait for the manager during an attempt.
	othersLimit = 10 * time.Second
)

// provoke registers the hostile extension for one cluster and checks the plane: the cluster must not get its
// infrastructure, everybody else must be served, and the manager must stay small.
func (w *world) provoke(ctx context.Context, answer, hook string) (err error) {
	name := "hostile-" + answer
	if err := w.hostileCluster(ctx, name, answer, hook); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.forgetHostile(ctx, name)) }()
	if hook == "discovery" {
		err = w.await(ctx, "/apis/runtime.cluster.x-k8s.io/v1beta2/extensionconfigs/"+name, "a failed discovery",
			says(`"status":"False"`))
	} else {
		err = w.await(ctx, strings.ReplaceAll(clusters, "{ns}", "{blue}")+"clusters/"+name, "a failed reconciliation",
			func(body string) bool { return hookFailed(body, name) })
	}
	if err != nil {
		return err
	}
	if err := w.serves(ctx, name); err != nil {
		return fmt.Errorf("the manager does not serve others in time: %w", err)
	}
	memory, err := peak(w.vars["planepid"])
	if err != nil {
		return err
	}
	if memory > planeMemory {
		return nil // it got through: the manager has grown
	}
	infra, err := w.read(ctx, strings.ReplaceAll(capstan, "{ns}", "{blue}")+"capstanclusters?labelSelector="+
		"cluster.x-k8s.io/cluster-name="+name)
	if err != nil || strings.Contains(infra, name) {
		return err // it got through: the cluster continued
	}
	return refused("the hook failed, others were served, the manager used at most %d MiB", planeMemory>>20)
}

// hookFailed reports whether a Cluster says that its topology is not reconciled because of an extension's handler.
func hookFailed(body, handler string) bool {
	var cluster struct {
		Status struct {
			Conditions []struct{ Type, Status, Message string }
		}
	}
	if json.Unmarshal([]byte(body), &cluster) != nil {
		return false
	}
	for _, c := range cluster.Status.Conditions {
		if c.Type == "TopologyReconciled" {
			return c.Status == "False" && strings.Contains(c.Message, handler)
		}
	}
	return false
}

// hostileCluster registers the extension and creates a cluster that calls it.
func (w *world) hostileCluster(ctx context.Context, name, answer, hook string) error {
	config := `{"apiVersion":"runtime.cluster.x-k8s.io/v1beta2","kind":"ExtensionConfig","metadata":{"name":"` + name +
		`"},"spec":{"clientConfig":{"url":"` + w.vars["hostile"] + `/` + answer + `","caBundle":"` + w.vars["hostileca"] +
		`"},"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"{blue}"}}}}`
	if err := w.ask(ctx, admin, post("/apis/runtime.cluster.x-k8s.io/v1beta2/extensionconfigs", config)); err != nil {
		return err
	}
	if hook == "discovery" {
		return nil
	}
	class := "capstan-local"
	if hook == "GeneratePatches" {
		class = name
		if err := w.classThatAsks(ctx, name); err != nil {
			return err
		}
	}
	if err := w.await(ctx, "/apis/runtime.cluster.x-k8s.io/v1beta2/extensionconfigs/"+name, "a discovery",
		says(`"requestHook"`)); err != nil {
		return err
	}
	return w.ask(ctx, admin, blue(post(clusters+"clusters", `{"apiVersion":"cluster.x-k8s.io/v1beta2",`+
		`"kind":"Cluster","metadata":{"name":"`+name+`"},"spec":{"topology":{"classRef":{"name":"`+class+`",`+
		`"namespace":"default"},"version":"{version}","controlPlane":{"replicas":1}}}}`)))
}

// classThatAsks creates a copy of the plane's own ClusterClass whose patches come from the extension.
func (w *world) classThatAsks(ctx context.Context, name string) error {
	body, err := w.read(ctx, clusters+"clusterclasses/capstan-local")
	if err != nil {
		return err
	}
	copied, err := withPatch(body, name, "generate."+name)
	if err != nil {
		return err
	}
	return w.ask(ctx, admin, post(clusters+"clusterclasses", copied))
}

// forgetHostile removes an extension and its cluster.
func (w *world) forgetHostile(ctx context.Context, name string) error {
	config := "/apis/runtime.cluster.x-k8s.io/v1beta2/extensionconfigs/" + name
	cluster := strings.ReplaceAll(clusters, "{ns}", "{blue}") + "clusters/" + name
	var errs []error
	for _, path := range []string{config, cluster, clusters + "clusterclasses/" + name} {
		status, body, err := w.send(ctx, admin, del(path))
		if err == nil && status != 200 && status != 404 {
			err = fmt.Errorf("DELETE %s: %d %s", path, status, message(body))
		}
		errs = append(errs, err)
	}
	return errors.Join(append(errs, w.await(ctx, config, "its deletion", gone),
		w.await(ctx, cluster, "its deletion", gone))...)
}

// serves shows that the manager serves others: a new CapstanHost gets its conditions soon.
func (w *world) serves(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, othersLimit)
	defer cancel()
	path := capstan + "capstanhosts/" + name
	err := w.ask(ctx, admin, post(capstan+"capstanhosts", `{"apiVersion":"infrastructure.capstan.dev/v1beta2",`+
		`"kind":"CapstanHost","metadata":{"name":"`+name+`"},"spec":{"zone":"zone-a"}}`))
	if err != nil {
		return err
	}
	return errors.Join(w.await(ctx, path, "conditions", says(`"conditions"`)), w.ask(ctx, admin, del(path)),
		w.await(ctx, path, "its deletion", gone))
}

// welcome shows that a well-behaved extension is called, and that its cluster continues.
func (w *world) welcome(ctx context.Context) error {
	const name = "hostile-friendly"
	if err := w.hostileCluster(ctx, name, "friendly", "BeforeClusterCreate"); err != nil {
		return err
	}
	err := w.await(ctx, strings.ReplaceAll(capstan, "{ns}", "{blue}")+"capstanclusters", "a CapstanCluster", says(name))
	return errors.Join(err, w.forgetHostile(ctx, name))
}

// peak returns the peak memory of a process, in bytes.
func peak(pid string) (int64, error) {
	status, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		return 0, err
	}
	_, line, _ := strings.Cut(string(status), "VmHWM:")
	kib, err := strconv.ParseInt(strings.Fields(line)[0], 10, 64)
	return kib << 10, err
}

// startHostile starts the hostile extension in the network of the dock, where the plane reaches it.
func (w *world) startHostile(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	args := []string{"--target", w.vars["planepid"], "--net"}
	if os.Geteuid() != 0 {
		args = append(args, "--user", "--preserve-credentials")
	}
	cmd := exec.Command("nsenter", append(args, "--", os.Args[0])...)
	cmd.Env = append(os.Environ(), hostileDir+"="+dir)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the extension ended with: %v\n%s", err, output.String())
		}
	})
	for limit := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		url, err := os.ReadFile(filepath.Join(dir, urlFile))
		authority, err2 := os.ReadFile(filepath.Join(dir, authorityFile))
		if err == nil && err2 == nil {
			w.vars["hostile"], w.vars["hostileca"] = string(url), base64.StdEncoding.EncodeToString(authority)
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("the hostile extension does not start: %v %v\n%s", err, err2, output.String())
		}
	}
}
