package proxy

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"
)

func TestComplete(t *testing.T) {
	for name, c := range map[string]struct{ text, want, settings string }{
		"as kubeadm writes it": {
			"apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: \"\"\n" +
				"clientConnection: {kubeconfig: /var/lib/kube-proxy/kubeconfig.conf}\nclusterCIDR: 10.244.0.0/16\n" +
				"conntrack: {maxPerCore: null, min: null, tcpBeLiberal: false}\n",
			"{apiVersion: kubeproxy.config.k8s.io/v1alpha1, kind: KubeProxyConfiguration, mode: nftables, " +
				"clientConnection: {kubeconfig: /var/lib/kube-proxy/kubeconfig.conf}, clusterCIDR: 10.244.0.0/16, " +
				"conntrack: {maxPerCore: 0, min: 0, tcpBeLiberal: false}}",
			"/var/lib/kube-proxy/kubeconfig.conf [10.244.0.0/16]",
		},
		"settings that are present stay": {
			"{mode: ipvs, conntrack: {maxPerCore: 7, min: 9}, clusterCIDR: '10.244.0.0/16,fd00::/48'}",
			"{mode: ipvs, conntrack: {maxPerCore: 7, min: 9}, clusterCIDR: '10.244.0.0/16,fd00::/48'}",
			" [10.244.0.0/16 fd00::/48]",
		},
		"an empty configuration": {"", "{mode: nftables, conntrack: {maxPerCore: 0, min: 0}}", " []"},
	} {
		t.Run(name, func(t *testing.T) {
			text, s, err := complete([]byte(c.text))
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(s.kubeconfig, " ", s.pods); got != c.settings {
				t.Errorf("settings are %s, want %s", got, c.settings)
			}
			var got, want map[string]any
			if err := yaml.Unmarshal(text, &got); err != nil {
				t.Fatal(err)
			}
			if err := yaml.Unmarshal([]byte(c.want), &want); err != nil {
				t.Fatal(err)
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
	for _, text := range []string{"[", "clusterCIDR: ten"} {
		if _, _, err := complete([]byte(text)); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}

// kube-proxy watches its copy, which changes only when the configuration does.
func TestAChangeIsCopied(t *testing.T) {
	dir := t.TempDir()
	from := filepath.Join(dir, "config.conf")
	write := func(text string) {
		if err := os.WriteFile(from, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("metricsBindAddress: a")
	c, err := copyConfig(from, filepath.Join(dir, "run"))
	if err != nil {
		t.Fatal(err)
	}
	read := func() (string, int64) {
		text, err := os.ReadFile(c.to)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(c.to)
		if err != nil {
			t.Fatal(err)
		}
		return string(text), info.ModTime().UnixNano()
	}
	before, at := read()
	if err := c.again(); err != nil {
		t.Fatal(err)
	}
	if text, now := read(); text != before || now != at {
		t.Errorf("the copy was written again without a change: %s", text)
	}
	write("metricsBindAddress: b")
	if err := c.again(); err != nil {
		t.Fatal(err)
	}
	if text, _ := read(); text == before {
		t.Error("the copy was not written again after a change")
	}
}
