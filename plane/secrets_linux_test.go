package plane_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/process"
	"github.com/capstan-dev/capstan/plane"
	"github.com/capstan-dev/capstan/plane/pki"
	"github.com/capstan-dev/capstan/plane/seal"
	"github.com/capstan-dev/capstan/plane/store"
	"github.com/capstan-dev/capstan/test/long"
)

const (
	// secretText occurs only in encrypted objects; openText is in a ConfigMap.
	secretText = "the-bootstrap-data-of-a-machine"
	openText   = "what-everybody-may-read"
)

// raw returns how often a text occurs in etcd's files, including their free pages.
func raw(t *testing.T, dir, text string) (found int) {
	t.Helper()
	if err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasPrefix(path, filepath.Join(dir, "etcd")) {
			return err
		}
		data, err := os.ReadFile(path)
		found += bytes.Count(data, []byte(text))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return found
}

// TestSecretsAreEncryptedAtRest reads etcd's files as somebody with a copy of them could.
func TestSecretsAreEncryptedAtRest(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "plane")
	ctx := bounded(t)
	r := start(t, dir)
	c := r.client()
	config := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "bootstrap.cluster.x-k8s.io/v1beta2", "kind": "KubeadmConfig",
		"metadata": map[string]any{"namespace": "default", "name": "joins"},
		"spec":     map[string]any{"files": []any{map[string]any{"path": "/x", "content": secretText}}},
	}}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-kubeconfig"},
		Data:       map[string][]byte{"value": []byte(secretText)},
	}
	open := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "open"}, Data: map[string]string{"value": openText},
	}
	for _, object := range []client.Object{config, secret, open} {
		if err := c.Create(ctx, object); err != nil {
			t.Fatal(err)
		}
	}
	r.stop()
	if n := raw(t, dir, secretText); n > 0 {
		t.Errorf("etcd's files contain the secret text %d times", n)
	}
	if raw(t, dir, openText) == 0 {
		t.Error("etcd's files do not contain the ConfigMap's text, so the test looks in the wrong place")
	}
	second := start(t, dir)
	err := c.Get(ctx, client.ObjectKeyFromObject(secret), secret)
	if err != nil || string(secret.Data["value"]) != secretText {
		t.Errorf("after a restart, the Secret contains %q, error %v", secret.Data, err)
	}
	second.stop()
}

// TestRewritingSecretsSurvivesKills starts with data of a plane that did not encrypt, and kills the plane at each
// point: once during the first encryption of a fresh copy of the data, and once during a rotation of the key.
func TestRewritingSecretsSurvivesKills(t *testing.T) {
	long.Need(t)
	home := t.TempDir()
	older := filepath.Join(home, "older")
	withEtcd(t, older, func(ctx context.Context, values *store.Store) {
		for key, object := range map[string]string{
			"/registry/secrets/default/demo-kubeconfig": `{"kind":"Secret","apiVersion":"v1","metadata":{"name":` +
				`"demo-kubeconfig","namespace":"default","uid":"1"},"stringData":{"x":"` + secretText + `"}}`,
			"/registry/secrets/default/second": `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"second",` +
				`"namespace":"default","uid":"2"},"data":{"value":"c2Vjb25k"},"type":"` + secretText + `"}`,
			"/registry/configmaps/default/open": `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"open",` +
				`"namespace":"default","uid":"3"},"data":{"value":"` + openText + `"}}`,
		} {
			if err := values.Replace(ctx, key, []byte(object), 0); err != nil {
				t.Fatal(err)
			}
		}
	})
	if raw(t, older, secretText) == 0 || raw(t, older, openText) == 0 {
		t.Fatal("the files of the older plane do not contain its texts")
	}

	dir := ""
	for _, point := range plane.Points[1:] { // the first key is created together with its file
		dir = filepath.Join(home, "first-"+point)
		if err := os.CopyFS(dir, os.DirFS(older)); err != nil {
			t.Fatal(err)
		}
		killedAt(t, dir, point)
		settled(t, dir, "the first encryption was killed at "+point)
	}
	var keys []string
	for _, point := range plane.Points { // all in one home directory
		replaced, err := seal.Request(filepath.Join(dir, "encryption"))
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, replaced)
		killedAt(t, dir, point)
		settled(t, dir, "a rotation was killed at "+point)
	}
	for _, key := range keys {
		if n := raw(t, dir, ":"+key+":"); n > 0 {
			t.Errorf("etcd's files contain %d values that are encrypted with the dropped key %s", n, key)
		}
	}

	t.Setenv("PLANE_KILL_AT", "")
	r := start(t, dir)
	second, open := &corev1.Secret{}, &corev1.ConfigMap{}
	if err := errors.Join(
		r.client().Get(bounded(t), client.ObjectKey{Namespace: "default", Name: "second"}, second),
		r.client().Get(bounded(t), client.ObjectKey{Namespace: "default", Name: "open"}, open),
	); err != nil || string(second.Data["value"]) != "second" || open.Data["value"] != openText {
		t.Errorf("in the end, the Secret contains %v and the ConfigMap %v, error %v", second.Data, open.Data, err)
	}
	r.stop()
}

// killedAt starts a plane that is killed when it reaches a point of the rewriting.
func killedAt(t *testing.T, dir, point string) {
	t.Helper()
	t.Setenv("PLANE_KILL_AT", point)
	r := launch(t, dir)
	<-r.exited
	if out := r.output.String(); r.cmd.ProcessState.Exited() {
		t.Fatalf("the plane exited before it reached %q:\n%s", point, out)
	}
}

// settled lets another start finish what the killed start began, and checks the result.
func settled(t *testing.T, dir, what string) {
	t.Helper()
	killedAt(t, dir, plane.PointSealed)
	ring, err := seal.Open(filepath.Join(dir, "encryption"), false, nil)
	if err != nil {
		t.Fatal(err)
	}
	if ring.Pending() || ring.Remnants || len(ring.Keys) != 1 {
		t.Errorf("%s, and the next start did not finish the work: %d keys, pending %v, remnants %v", what,
			len(ring.Keys), ring.Pending(), ring.Remnants)
	}
	if n := raw(t, dir, secretText); n > 0 {
		t.Errorf("%s, and etcd's files contain the secret text %d times", what, n)
	}
	if raw(t, dir, openText) == 0 || raw(t, dir, ":"+ring.Keys[0].Name+":") < 2 {
		t.Errorf("%s, and etcd's files lack the ConfigMap's text or the encrypted values", what)
	}
	if found, err := filepath.Glob(filepath.Join(dir, "etcd.*")); err != nil || len(found) > 0 {
		t.Errorf("%s, and files are left: %v, error %v", what, found, err)
	}
}

// withEtcd runs the etcd of a plane that never ran, while the function use works with it.
func withEtcd(t *testing.T, dir string, use func(context.Context, *store.Store)) {
	t.Helper()
	keys, err := pki.Ensure(pki.Directory{Path: filepath.Join(dir, "pki")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	client, peer := "https://"+freeAddress(t), "https://"+freeAddress(t)
	ctx, cancel := context.WithCancel(bounded(t))
	ended := make(chan error, 1)
	ready := make(chan struct{})
	etcd := process.Process{Name: "etcd", Path: kube(t), Dir: dir, Args: []string{
		"etcd", "--name=plane", "--data-dir=" + filepath.Join(dir, "etcd"), "--listen-client-urls=" + client,
		"--advertise-client-urls=" + client, "--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=plane=" + peer, "--client-cert-auth", "--trusted-ca-file=" + keys.EtcdCA.CertFile,
		"--cert-file=" + keys.Etcd.CertFile, "--key-file=" + keys.Etcd.KeyFile,
		"--peer-cert-file=" + keys.Etcd.CertFile, "--peer-key-file=" + keys.Etcd.KeyFile,
	}, Probe: func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", strings.TrimPrefix(client, "https://"))
		if err != nil {
			return err
		}
		return conn.Close()
	}}
	go func() { ended <- etcd.Run(ctx, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(fmt.Errorf("etcd exited: %w", err))
	}
	values, err := store.Open(client, keys.EtcdCA, keys.EtcdClient)
	if err != nil {
		t.Fatal(err)
	}
	use(ctx, values)
	err = values.Close()
	cancel()
	if err := errors.Join(err, <-ended); err != nil {
		t.Fatal(err)
	}
}
