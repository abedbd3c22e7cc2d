package seal

import (
	"encoding/base64"
	"fmt"
	"path/filepath"

	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/internal/atomicfile"
)

// Resources lists the encrypted resources in the form of the API server's configuration: RESOURCE or RESOURCE.GROUP.
var Resources = []string{
	"secrets",
	"kubeadmconfigs.bootstrap.cluster.x-k8s.io",
	"kubeadmconfigtemplates.bootstrap.cluster.x-k8s.io",
	"kubeadmcontrolplanes.controlplane.cluster.x-k8s.io",
	"kubeadmcontrolplanetemplates.controlplane.cluster.x-k8s.io",
}

// The parts of the API server's EncryptionConfiguration that we use. Kubernetes' own types are in the large server
// module.
type (
	configuration struct {
		APIVersion string  `json:"apiVersion"`
		Kind       string  `json:"kind"`
		Resources  []rules `json:"resources"`
	}
	rules struct {
		Resources []string   `json:"resources"`
		Providers []provider `json:"providers"`
	}
	provider struct {
		Secretbox keys `json:"secretbox"`
	}
	keys struct {
		Keys []configKey `json:"keys"`
	}
	configKey struct {
		Name   string `json:"name"`
		Secret string `json:"secret"`
	}
)

// WriteConfig writes the API server's encryption configuration and returns its path. The configuration contains only
// the first key, so the API server rejects values that are not encrypted with it.
func (r *Ring) WriteConfig() (path string, err error) {
	first := configKey{Name: r.Keys[0].Name, Secret: base64.StdEncoding.EncodeToString(r.Keys[0].Secret)}
	data, err := yaml.Marshal(configuration{
		APIVersion: "apiserver.config.k8s.io/v1",
		Kind:       "EncryptionConfiguration",
		Resources: []rules{{
			Resources: Resources,
			Providers: []provider{{Secretbox: keys{Keys: []configKey{first}}}},
		}},
	})
	if err != nil {
		return "", fmt.Errorf("encoding the API server's encryption configuration: %w", err)
	}
	path = filepath.Join(r.dir, ConfigFile)
	return path, atomicfile.Write(path, data, 0o600)
}
