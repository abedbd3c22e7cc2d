package local

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/internal/hint"
	"github.com/capstan-dev/capstan/local/credential"
	"github.com/capstan-dev/capstan/local/enrol"
)

// TestAdmission: the JSON form of an Admission is stable, and the example for Ansible uses it.
func TestAdmission(t *testing.T) {
	made := Admission{
		Credential: credential.Credential{ID: "aaaaaaaaaa", Limits: credential.Limits{Namespace: "default", Uses: 3}},
		Invitation: enrol.Invitation{Server: "https://192.0.2.1:7444", CAHash: "sha256:1", ScriptHash: "2"},
		Text:       "capstan1.aaaaaaaaaa.secret", Command: "sh",
	}
	data, err := json.Marshal(made)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]any{
		"id": "aaaaaaaaaa", "namespace": "default", "uses": 3.0, "server": "https://192.0.2.1:7444", "caHash": "sha256:1",
		"scriptHash": "2", "credential": "capstan1.aaaaaaaaaa.secret", "command": "sh",
	} {
		if got[key] != want {
			t.Errorf("%s is %v, want %v", key, got[key], want)
		}
	}
	example, err := os.ReadFile(filepath.Join("..", "examples", "ansible", "enroll.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var plays []map[string]any
	if err := yaml.Unmarshal(example, &plays); err != nil || len(plays) != 2 {
		t.Errorf("the example has %d plays, %v", len(plays), err)
	}
	for _, key := range []string{"capstan.command }}", "capstan.credential }}"} {
		if !strings.Contains(string(example), key) {
			t.Errorf("the example does not use %s", key)
		}
	}
}

// TestAdmitNeedsAPlane: without a running plane, no credential is created.
func TestAdmitNeedsAPlane(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(NewScheme()).Build()
	_, err := Admit(t.Context(), Place{Home: t.TempDir()}, c, credential.Limits{Namespace: "default", Uses: 1}, time.Hour)
	if err == nil || !strings.Contains(hint.Of(err), "capstan up") {
		t.Errorf("got %v with the hint %q", err, hint.Of(err))
	}
	if list, err := credential.List(t.Context(), c, "", time.Now()); err != nil || len(list) != 0 {
		t.Errorf("the credentials are %+v, error %v; want none", list, err)
	}
}
