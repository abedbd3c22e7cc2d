package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// dead is a kubeconfig of a management cluster that doesn't answer, with a namespace in one of its contexts.
const dead = `{apiVersion: v1, kind: Config, current-context: plain, clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}], users: [{name: u, user: {}}],
contexts: [{name: plain, context: {cluster: c, user: u}}, {name: named, context: {cluster: c, user: u, namespace: red}}]}`

// TestWithoutAPlane: commands that need no management cluster work even if a stopped plane has left its kubeconfig.
func TestWithoutAPlane(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Setenv("XDG_CONFIG_HOME", dir)
	template, cluster := filepath.Join(dir, "template.yaml"), filepath.Join(dir, "cluster.yaml")
	for path, text := range map[string]string{
		filepath.Join(dir, "plane", "kubeconfig"): dead, template: "a: ${ONE:=first}\n",
		cluster: "apiVersion: cluster.x-k8s.io/v1beta1\nkind: Cluster\nmetadata: {name: c1}\nspec: {paused: true}\n",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for want, args := range map[string][]string{
		"kind: ClusterClass":      {"generate", "cluster", "c1", "--flavor", "topology", "--kubernetes-version", "v1.36.3"},
		"a: first":                {"generate", "yaml", "--from", template},
		"cluster.x-k8s.io/v1beta": {"convert", cluster},
		"CoreProvider":            {"config", "repositories"},
	} {
		var out, errs bytes.Buffer
		if code := run("capstan", append([]string{"--home", filepath.Join(dir, "plane"), "clusterctl"}, args...),
			strings.NewReader(""), &out, &errs); code != 0 || !strings.Contains(out.String(), want) {
			t.Errorf("capstan clusterctl %s: exit code %d, want %q\n%s%s", strings.Join(args, " "), code, want, &out, &errs)
		}
	}
}

// TestNamespaceOfAnotherManagementCluster: the namespace is that of the context, unless a flag names one.
func TestNamespaceOfAnotherManagementCluster(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, []byte(dead), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		t    target
		want string
	}{
		"the plane, without the flag":   {nil, target{}, "default"},
		"the plane, with the flag":      {[]string{"-n", "blue"}, target{}, "blue"},
		"the plane, with an empty flag": {[]string{"-n", ""}, target{}, "default"},
		"a context without a namespace": {nil, target{kubeconfig: path}, "default"},
		"a context with a namespace":    {nil, target{kubeconfig: path, context: "named"}, "red"},
		"a context with a namespace, and the flag": {
			[]string{"-n", "default"}, target{kubeconfig: path, context: "named"},
			"default"},
		"a context with a namespace, and an empty flag": {[]string{"--namespace="},
			target{kubeconfig: path, context: "named"}, "red"},
		"a context that does not exist": {nil, target{kubeconfig: path, context: "none"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := &app{}
			cmd := a.rootCommand()
			if err := cmd.ParseFlags(c.args); err != nil {
				t.Fatal(err)
			}
			err := a.settleNamespace(cmd, &c.t, c.t.kubeconfig)
			if (err != nil) != (c.want == "") || a.namespace != c.want {
				t.Errorf("the namespace is %q, error %v, want %q", a.namespace, err, c.want)
			}
		})
	}
}
