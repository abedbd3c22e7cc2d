//go:build linux

package attack

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/capstan-dev/capstan/dock"
	"github.com/capstan-dev/capstan/internal/home"
	"github.com/capstan-dev/capstan/test/leftovers"
)

const (
	// clusterName is the cluster whose hosts, tenants and administrator attack.
	clusterName = "attacked"
	// stranger is the other ordinary user of the machine.
	stranger = 5678
	// commandLimit limits the time of one command of the user.
	commandLimit = 4 * time.Minute
)

// world is a management plane with a cluster, and all of its attackers.
type world struct {
	uid    int // of the user who runs the plane
	home   home.Dir
	bin    string
	server string // of the plane's API server, on this machine
	plane  *rest.Config
	hosts  map[string]dock.Host
	vars   map[string]string
	tokens map[identity]string
	// workload has the credentials of the workload cluster's administrator, but the address of the plane.
	workload *rest.Config

	// wayOut is the home of another dock, on a machine with a network.
	wayOut home.Dir

	labelled    sync.Once
	labelledErr error // of the control that delivers a tenant's labelled data

	friendly    sync.Once
	friendlyErr error // of the control with a well-behaved extension
}

// newWorld starts a plane as the user with the id uid. On that plane, it creates a cluster with a control plane and one
// worker.
func newWorld(t *testing.T, uid int) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "capstan-attack-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(filepath.Join(dir, "of"), 0o700),
		os.Chown(filepath.Join(dir, "of"), uid, uid)); err != nil {
		t.Fatal(err)
	}
	w := &world{uid: uid, home: home.Dir(filepath.Join(dir, "of", "home")), bin: filepath.Join(dir, "bin")}
	copyBinaries(t, "../../bin", w.bin)
	t.Cleanup(func() { w.end(t) })
	w.run(t, "up", "--hosts", "5")
	w.run(t, "cluster", "create", clusterName, "--workers", "1")
	w.meet(t)
	if os.Geteuid() == 0 {
		w.meetWayOut(t)
	}
	return w
}

// copyBinaries copies the built binaries to a place where every user can read them.
func copyBinaries(t *testing.T, from, to string) {
	t.Helper()
	for _, pattern := range []string{"capstan*", "bundles/*/*"} {
		files, err := filepath.Glob(filepath.Join(from, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("no %s in bin: run make build (%v)", pattern, err)
		}
		for _, file := range files {
			name, _ := filepath.Rel(from, file)
			target := filepath.Join(to, name)
			if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
				t.Fatal(err)
			}
			if os.Link(file, target) == nil {
				continue
			}
			data, err := os.ReadFile(file)
			if err == nil {
				err = os.WriteFile(target, data, 0o755)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// command returns a command that runs as the user of the plane.
func (w *world) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(w.bin, "capstan"), args...)
	cmd.Env = []string{"CAPSTAN_HOME=" + string(w.home), "HOME=" + filepath.Dir(string(w.home)),
		"PATH=" + os.Getenv("PATH")}
	cmd.Dir = filepath.Dir(string(w.home))
	cmd.WaitDelay = 5 * time.Second
	if w.uid != os.Geteuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(w.uid), Gid: uint32(w.uid)}}
	}
	return cmd
}

// run runs capstan, which must succeed, and returns what it printed to stdout.
func (w *world) run(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), commandLimit)
	defer cancel()
	var out, errOut bytes.Buffer
	cmd := w.command(ctx, args...)
	cmd.Stdout, cmd.Stderr = &out, &errOut
	start := time.Now()
	err := cmd.Run()
	t.Logf("capstan %s: %s", strings.Join(args, " "), time.Since(start).Round(100*time.Millisecond))
	if err != nil {
		t.Fatalf("capstan %s: %v\n%s%s", strings.Join(args, " "), err, out.String(), errOut.String())
	}
	return out.String()
}

// end stops the plane, and fails the test if the plane leaves anything behind.
func (w *world) end(t *testing.T) {
	w.run(t, "down", "--delete")
	left := leftovers.Of(string(w.home))
	for limit := time.Now().Add(10 * time.Second); len(left) > 0 && time.Now().Before(limit); {
		time.Sleep(50 * time.Millisecond) // a process may need a moment to exit after releasing its lock
		left = leftovers.Of(string(w.home))
	}
	for _, l := range left {
		t.Errorf("left behind: %s", l)
	}
}

// object is a part of any API object.
type object struct {
	Metadata struct{ Name string }
	Spec     struct {
		Epoch       int64
		ProviderID  string
		Claim       *struct{ Machine, ProviderID string }
		ClusterName string
		Version     string
		Bootstrap   struct{ DataSecretName string }
		Supplier    string
	}
	Status struct{ Host string }
}

// list lists objects as the plane's administrator.
func (w *world) list(t *testing.T, path string) []object {
	t.Helper()
	var list struct{ Items []object }
	status, body, err := w.send(t.Context(), admin, get(path))
	if err == nil && status != 200 {
		err = fmt.Errorf("%d %s", status, message(body))
	}
	if err == nil {
		err = json.Unmarshal([]byte(body), &list)
	}
	if err != nil {
		t.Fatalf("listing %s: %v", path, err)
	}
	return list.Items
}

// do makes a request as the plane's administrator, which must succeed.
func (w *world) do(t *testing.T, r request) {
	t.Helper()
	if err := w.ask(t.Context(), admin, r); err != nil {
		t.Fatal(err)
	}
}

// meet finds the identities, creates the tenants, and creates the objects that tenants and hosts try to reach.
func (w *world) meet(t *testing.T) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", w.home.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	w.plane, w.server = config, config.Host
	w.tokens = map[identity]string{}
	w.vars = map[string]string{
		"ns": "default", "blue": "blue", "cluster": clusterName, "loose": "loose",
		"authority": base64.StdEncoding.EncodeToString(config.CAData),
	}
	w.meetHosts(t)
	w.meetTenants(t)
	for name, path := range map[string]string{
		"policy": admission + "validatingadmissionpolicybindings", "webhook": admission + "validatingwebhookconfigurations",
		"capstancluster": capstan + "capstanclusters",
	} {
		if items := w.list(t, path); len(items) > 0 {
			w.vars[name] = items[0].Metadata.Name
		}
	}
	for _, suffix := range []string{"bootstrap", "handover"} {
		w.do(t, post(core+"secrets", `{"metadata":{"name":"{free}-`+suffix+`"},"stringData":{"value":"decoy"}}`))
	}
	w.meetPorts(t)
	if err := w.leaveTraces(t.Context()); err != nil {
		t.Fatal(err)
	}
	kubeconfig := w.run(t, "cluster", "kubeconfig", clusterName)
	if w.workload, err = clientcmd.RESTConfigFromKubeConfig([]byte(kubeconfig)); err != nil {
		t.Fatal(err)
	}
	if err := w.meetProcesses(); err != nil {
		t.Fatal(err)
	}
	w.startHostile(t)
}

// meetHosts finds the worker's host, the control plane's host, and a free host.
func (w *world) meetHosts(t *testing.T) {
	t.Helper()
	for _, m := range w.list(t, clusters+"machines") {
		w.vars["version"] = m.Spec.Version
		w.vars["data"] = m.Spec.Bootstrap.DataSecretName
		w.vars["coremachine"] = m.Metadata.Name
	}
	for _, h := range w.list(t, capstan+"capstanhosts") {
		epoch := strconv.FormatInt(h.Spec.Epoch, 10)
		switch {
		case h.Spec.Claim == nil:
			w.vars["free"] = h.Metadata.Name
		case strings.Contains(h.Spec.Claim.Machine, "-md-"):
			w.vars["host"], w.vars["epoch"], w.vars["machine"] = h.Metadata.Name, epoch, h.Spec.Claim.Machine
		default:
			w.vars["other"], w.vars["otherepoch"], w.vars["providerID"] = h.Metadata.Name, epoch, h.Spec.Claim.ProviderID
		}
	}
	docked := dock.Connect(string(w.home))
	defer docked.Close()
	hosts, err := docked.ListHosts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.hosts = map[string]dock.Host{}
	for _, h := range hosts {
		w.hosts[h.Name] = h
	}
	for who, name := range map[identity]string{hostAccount: w.vars["host"], otherHost: w.vars["other"]} {
		token, err := os.ReadFile(filepath.Join(w.home.HostRoot(name), "var/lib/capstan/token"))
		if err != nil {
			t.Fatalf("the token of the agent on %s: %v", name, err)
		}
		w.tokens[who] = strings.TrimSpace(string(token))
	}
}

// meetPorts finds the ports of the plane's parts and the addresses of the hosts.
func (w *world) meetPorts(t *testing.T) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(w.home.Plane(), "ports.json"))
	var ports struct{ Etcd, Webhook, Extension int }
	if err == nil {
		err = json.Unmarshal(data, &ports)
	}
	if err != nil {
		t.Fatal(err)
	}
	own, other := w.hosts[w.vars["host"]], w.hosts[w.vars["other"]]
	for name, value := range map[string]string{
		"etcdport": strconv.Itoa(ports.Etcd), "webhookport": strconv.Itoa(ports.Webhook),
		"extensionport": strconv.Itoa(ports.Extension), "home": string(w.home),
		"address": own.Address, "otheraddress": other.Address, "otherpid": strconv.Itoa(other.PID),
	} {
		w.vars[name] = value
	}
}

// meetTenants creates the two tenants: service accounts that administer a namespace through Kubernetes' own role.
func (w *world) meetTenants(t *testing.T) {
	t.Helper()
	w.do(t, post("/api/v1/namespaces", `{"metadata":{"name":"blue"}}`))
	w.do(t, post(rbac+"clusterroles", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":`+
		`{"name":"enroller"},"rules":[{"apiGroups":["infrastructure.capstan.dev"],"resources":["capstanhosts"],`+
		`"verbs":["create","delete"]}]}`))
	w.do(t, post(rbac+"clusterroles", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":`+
		`{"name":"cluster-maker"},"rules":[{"apiGroups":["cluster.x-k8s.io"],"resources":["clusters","machines"],`+
		`"verbs":["create","delete","get","list"]}]}`))
	w.account(t, tenant, "default", "tenant", "admin", "cluster-maker")
	w.account(t, neighbour, "blue", "tenant", "admin", "cluster-maker")
	w.do(t, post(rbac+"clusterroles", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":`+
		`{"name":"author"},"rules":[{"apiGroups":["cluster.x-k8s.io","bootstrap.cluster.x-k8s.io",`+
		`"controlplane.cluster.x-k8s.io"],"resources":["*"],"verbs":["create","get","list","patch","update"]}]}`))
	w.account(t, enroller, "default", "enroller", "enroller")
	w.account(t, author, "default", "author", "author")
	w.do(t, post(capstan+"capstanmachines", machineNamed("loose", "")))
	w.do(t, post(core+"secrets", `{"metadata":{"name":"precious"},"stringData":{"value":"precious"}}`))
}

// account creates a service account that has ClusterRoles in a namespace, and a token for it.
func (w *world) account(t *testing.T, who identity, namespace, name string, roles ...string) {
	t.Helper()
	at := "/api/v1/namespaces/" + namespace + "/serviceaccounts"
	w.do(t, post(at, `{"metadata":{"name":"`+name+`"}}`))
	for _, role := range roles {
		w.do(t, post(rbac+"namespaces/"+namespace+"/rolebindings", `{"apiVersion":"rbac.authorization.k8s.io/v1",`+
			`"kind":"RoleBinding","metadata":{"name":"`+name+"-"+role+`"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io",`+
			`"kind":"ClusterRole","name":"`+role+`"},"subjects":[{"kind":"ServiceAccount","name":"`+name+
			`","namespace":"`+namespace+`"}]}`))
	}
	status, body, err := w.send(t.Context(), admin, post(at+"/"+name+"/token",
		`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"expirationSeconds":3600}}`))
	var token struct{ Status struct{ Token string } }
	if err != nil || status != http.StatusCreated || json.Unmarshal([]byte(body), &token) != nil {
		t.Fatalf("a token of %s: %d %s %v", name, status, message(body), err)
	}
	w.tokens[who] = token.Status.Token
}

// config returns an identity's client configuration for the plane's API server.
func (w *world) config(who identity) (*rest.Config, error) {
	switch who {
	case admin:
		return w.plane, nil
	case manager:
		config := rest.CopyConfig(w.plane)
		config.Impersonate.UserName = "capstan:manager"
		return config, nil
	case nobody:
		return rest.AnonymousClientConfig(w.plane), nil
	case workloadAdmin:
		config := rest.AnonymousClientConfig(w.plane)
		config.CertData, config.KeyData = w.workload.CertData, w.workload.KeyData
		return config, nil
	}
	token := w.tokens[who]
	if token == "" {
		return nil, fmt.Errorf("%s has no way to the API server in this test", who)
	}
	config := rest.AnonymousClientConfig(w.plane)
	config.BearerToken = token
	return config, nil
}

// fill puts the names of this world into a text.
func (w *world) fill(text string) string {
	if !strings.Contains(text, "{") {
		return text
	}
	for name, value := range w.vars {
		text = strings.ReplaceAll(text, "{"+name+"}", value)
	}
	return text
}
