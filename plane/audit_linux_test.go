package plane_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// auditEvent contains what the test reads from a line of the audit log.
type auditEvent struct {
	Verb string `json:"verb"`
	User struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	RequestObject  any `json:"requestObject"`
	ResponseObject any `json:"responseObject"`
}

func (e auditEvent) String() string {
	name := e.ObjectRef.Resource
	if e.ObjectRef.Subresource != "" {
		name += "/" + e.ObjectRef.Subresource
	}
	return fmt.Sprintf("%s %s %s %s %d", e.User.Username, e.Verb, name, e.ObjectRef.Name, e.ResponseStatus.Code)
}

// TestAuditLog: the log records who read or changed hosts, Secrets and permissions, without request bodies.
func TestAuditLog(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "plane")
	ctx := bounded(t)
	r := start(t, dir)
	c := r.client()
	named := func(object client.Object, name string) client.Object {
		object.SetNamespace("default")
		object.SetName(name)
		return object
	}
	secret, open := &corev1.Secret{Data: map[string][]byte{"value": []byte(secretText)}}, &corev1.ConfigMap{}
	host := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "infrastructure.capstan.dev/v1beta2", "kind": "CapstanHost", "spec": map[string]any{"zone": "zone-a"},
	}}
	account, role := &corev1.ServiceAccount{}, &rbacv1.Role{}
	for object, name := range map[client.Object]string{
		secret: "mine", open: "mine", host: "mine", account: "thief", role: "mine",
	} {
		if err := c.Create(ctx, named(object, name)); err != nil {
			t.Fatal(err)
		}
	}
	token := &authenticationv1.TokenRequest{}
	thief := r.config()
	thief.Impersonate.UserName = "system:serviceaccount:default:thief"
	stolen, err := client.New(thief, client.Options{Scheme: c.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(
		c.Get(ctx, client.ObjectKeyFromObject(secret), secret),
		c.List(ctx, &corev1.SecretList{}, client.InNamespace("default")),
		c.Get(ctx, client.ObjectKeyFromObject(open), open),
		c.Get(ctx, client.ObjectKeyFromObject(role), role),
		c.SubResource("token").Create(ctx, account, token),
		c.Patch(ctx, host, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"unschedulable":true}}`))),
		c.Delete(ctx, secret),
	); err != nil {
		t.Fatal(err)
	}
	if err := stolen.Get(ctx, client.ObjectKeyFromObject(secret), secret); err == nil {
		t.Fatal("an account without rights has read a Secret")
	}
	r.stop()

	path := filepath.Join(dir, "audit", "audit.log")
	checkModes(t, filepath.Dir(path))
	events, texts := readAudit(t, path)
	for _, want := range []string{
		"capstan:admin create secrets mine 201", "capstan:admin get secrets mine 200", "capstan:admin list secrets  200",
		"capstan:admin delete secrets mine 200", "capstan:admin create capstanhosts mine 201",
		"capstan:admin patch capstanhosts mine 200", "capstan:admin create serviceaccounts/token thief 201",
		"capstan:admin create roles mine 201", "capstan:admin create serviceaccounts thief 201",
		// The log names both the user who impersonates another and the impersonated user.
		"capstan:admin get secrets mine 403",
	} {
		if !slices.Contains(texts, want) {
			t.Errorf("the log lacks the event %q", want)
		}
	}
	for i, event := range events {
		if event.RequestObject != nil || event.ResponseObject != nil {
			t.Errorf("the log contains the content of the request %s", event)
		}
		if event.ObjectRef.Resource == "configmaps" || texts[i] == "capstan:admin get roles mine 200" {
			t.Errorf("the log contains %s, which is not security-relevant", event)
		}
	}
	if t.Failed() {
		t.Logf("%q", texts)
	}
}

func readAudit(t *testing.T, path string) (events []auditEvent, texts []string) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event auditEvent
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			t.Fatal(err)
		}
		events, texts = append(events, event), append(texts, event.String())
	}
	return events, texts
}

// checkModes checks that only the owner can read the files in a directory.
func checkModes(t *testing.T, dir string) {
	t.Helper()
	if err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("the mode of %s is %v", path, info.Mode())
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}
