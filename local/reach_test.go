package local

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/dock"
)

// relaysAt is a dock that creates relays on 127.0.0.1:1, except to a target whose address ends in "broken".
type relaysAt struct {
	broken string
	made   map[string]string
}

func (r *relaysAt) EnsureRelay(_ context.Context, name, target string) (string, error) {
	if r.broken != "" && strings.HasSuffix(target, r.broken) {
		return "", errors.New("no port is free")
	}
	r.made[name] = target
	return "127.0.0.1:1", nil
}

func (r *relaysAt) DeleteRelay(_ context.Context, name string) error {
	delete(r.made, name)
	return nil
}

func extensionAt(name, url string) runtimev1.ExtensionConfig {
	c := runtimev1.ExtensionConfig{Spec: runtimev1.ExtensionConfigSpec{ClientConfig: runtimev1.ClientConfig{URL: url}}}
	c.Name = name
	return c
}

func TestReachExtensions(t *testing.T) {
	for name, c := range map[string]struct{ url, want string }{
		"an extension on the plane's loopback": {"https://127.0.0.1:9443/a", "https://127.0.0.1:1/a"},
		"an extension on the dock's bridge":    {"https://" + dock.Gateway + ":9443", "https://127.0.0.1:1"},
		"an extension outside of the dock":     {"https://10.0.0.1:9443", "https://10.0.0.1:9443"},
		"an extension with a name":             {"https://quota.example.org:9443", "https://quota.example.org:9443"},
		"an extension without a port":          {"https://127.0.0.1", "https://127.0.0.1"},
		"an extension without a URL":           {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			relays, given := &relaysAt{made: map[string]string{}}, []runtimev1.ExtensionConfig{extensionAt("a", c.url)}
			reached, release, err := ReachExtensions(t.Context(), relays, given)
			if err != nil || len(reached) != 1 || reached[0].Spec.ClientConfig.URL != c.want {
				t.Fatalf("got %v, %v", reached, err)
			}
			if given[0].Spec.ClientConfig.URL != c.url {
				t.Errorf("the caller's ExtensionConfigs were changed: %v", given)
			}
			if (len(relays.made) == 1) != (c.url != c.want) {
				t.Errorf("the relays are %v", relays.made)
			}
			if err := release(); err != nil || len(relays.made) > 0 {
				t.Errorf("after release, the relays %v are left, error %v", relays.made, err)
			}
		})
	}
}

// TestReachExtensionsUndoesWhatItDid: if one extension can't be reached, no relays of the others remain.
func TestReachExtensionsUndoesWhatItDid(t *testing.T) {
	relays := &relaysAt{made: map[string]string{}, broken: ":2"}
	_, _, err := ReachExtensions(t.Context(), relays, []runtimev1.ExtensionConfig{
		extensionAt("a", "https://127.0.0.1:3"), extensionAt("b", "https://127.0.0.1:2"),
	})
	const want = "reaching the extension b in the dock: no port is free"
	if err == nil || !strings.Contains(err.Error(), want) || len(relays.made) > 0 {
		t.Errorf("got %v; relays that are left: %v", err, relays.made)
	}
}

// registered is a plane in which these extensions are installed.
type registered struct {
	client.Reader
	all   []runtimev1.ExtensionConfig
	fails error
}

func (r registered) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*runtimev1.ExtensionConfigList).Items = r.all
	return r.fails
}

func TestReachInstalled(t *testing.T) {
	elsewhere := extensionAt("a", "https://10.0.0.1:9443")
	inside := extensionAt("b", "https://127.0.0.1:9443")
	for name, c := range map[string]struct {
		plane registered
		want  int
		err   string
	}{
		"no extension":                     {registered{}, 0, ""},
		"an extension outside of the dock": {registered{all: []runtimev1.ExtensionConfig{elsewhere}}, 1, ""},
		"an extension in a dock that does not run": {
			registered{all: []runtimev1.ExtensionConfig{elsewhere, inside}}, 0, "reaching the extension b",
		},
		"a plane that does not answer": {
			registered{fails: errors.New("no route")}, 0, "listing ExtensionConfigs: no route",
		},
	} {
		t.Run(name, func(t *testing.T) {
			reached, release, err := ReachInstalled(t.Context(), t.TempDir(), c.plane)
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("got %v", err)
			}
			if err == nil && len(reached) != c.want {
				t.Errorf("reached %v", reached)
			}
			if err != nil {
				return
			}
			if err := release(); err != nil {
				t.Errorf("releasing: %v", err)
			}
		})
	}
}

func TestUserCertificateOfNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if _, err := UserCertificate(path); err == nil {
		t.Error("no error for a missing file")
	}
	text := `{apiVersion: v1, kind: Config, current-context: c,
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}],
users: [{name: u, user: {}}], contexts: [{name: c, context: {cluster: c, user: u}}]}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := UserCertificate(path)
	if err == nil || !strings.Contains(err.Error(), "reading the certificate in "+path) {
		t.Errorf("a kubeconfig without a certificate: got error %v", err)
	}
}
