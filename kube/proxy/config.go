package proxy

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// settings are the parts of a configuration that concern routes.
type settings struct {
	kubeconfig string
	pods       []netip.Prefix
}

// config is kube-proxy's configuration, of which kube-proxy reads a copy.
type config struct {
	from, to string
	settings settings
}

// copyConfig copies a configuration into a directory and adds what a local host needs.
func copyConfig(file, dir string) (*config, error) {
	c := &config{from: file, to: filepath.Join(dir, filepath.Base(file))}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the directory of the configuration: %w", err)
	}
	return c, c.again()
}

// again updates the copy if the configuration has changed.
func (c *config) again() error {
	text, err := os.ReadFile(c.from)
	if err != nil {
		return fmt.Errorf("reading the configuration: %w", err)
	}
	changed, settings, err := complete(text)
	if err != nil {
		return fmt.Errorf("reading the configuration %s: %w", c.from, err)
	}
	c.settings = settings
	if now, err := os.ReadFile(c.to); err == nil && bytes.Equal(now, changed) {
		return nil
	}
	if err := os.WriteFile(c.to, changed, 0o600); err != nil {
		return fmt.Errorf("writing the configuration: %w", err)
	}
	return nil
}

// complete adds the settings that kubeadm leaves unset and whose defaults don't work on a local host. It keeps settings
// that are present.
func complete(text []byte) ([]byte, settings, error) {
	all := map[string]any{}
	if err := yaml.Unmarshal(text, &all); err != nil {
		return nil, settings{}, err
	}
	// The default is iptables, a program that no host has.
	if mode, _ := all["mode"].(string); mode == "" {
		all["mode"] = "nftables"
	}
	// The whole machine shares one connection tracking table. A host can't set its size.
	conntrack, _ := all["conntrack"].(map[string]any)
	if conntrack == nil {
		conntrack = map[string]any{}
	}
	for _, name := range []string{"maxPerCore", "min"} {
		if conntrack[name] == nil {
			conntrack[name] = 0
		}
	}
	all["conntrack"] = conntrack
	client, _ := all["clientConnection"].(map[string]any)
	s := settings{}
	s.kubeconfig, _ = client["kubeconfig"].(string)
	ranges, _ := all["clusterCIDR"].(string)
	var err error
	if s.pods, err = prefixes(ranges); err != nil {
		return nil, s, err
	}
	text, err = yaml.Marshal(all)
	return text, s, err
}
