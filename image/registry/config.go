//go:build linux

package registry

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/image"
)

// Config is the content of HOME/registries.yaml.
type Config struct {
	// Mirrors are asked before a registry, for pulls without a credential. A registry's credential is never sent to a
	// mirror.
	Mirrors map[string][]string `json:"mirrors,omitempty"`
	// PlainHTTP lists registries and mirrors that are contacted without TLS.
	PlainHTTP []string `json:"plainHTTP,omitempty"`
	// HostsMayReach lists registries (HOST or HOST:PORT) that hosts may pull from even if they have local addresses.
	// Local addresses are this machine's own, loopback and link-local ones. The store does not let hosts pull from any
	// other registry at a local address.
	HostsMayReach []string `json:"hostsMayReach,omitempty"`
}

// maxConfig bounds the file.
const maxConfig = 1 << 20

// LoadConfig reads the file. Without a file, it returns the zero Config.
func LoadConfig(path string) (Config, error) {
	var c Config
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err == nil && info.Size() > maxConfig {
		err = fmt.Errorf("it has more than %d bytes", maxConfig)
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(path)
	}
	if err == nil {
		err = yaml.UnmarshalStrict(data, &c)
	}
	if err == nil {
		err = c.check()
	}
	if err != nil {
		return c, image.Errorf(image.CodeInvalid, "docs/images.md shows an example", "reading %s: %v", path, err)
	}
	return c, nil
}

func (c Config) check() error {
	for registry, mirrors := range c.Mirrors {
		for _, m := range append([]string{registry}, mirrors...) {
			if u, err := url.Parse("https://" + m); err != nil || u.Host != m {
				return fmt.Errorf("%q is not a registry: HOST or HOST:PORT is needed", m)
			}
		}
	}
	return nil
}

// plain reports whether a registry is contacted without TLS.
func (c Config) plain(registry string) bool { return slices.Contains(c.PlainHTTP, registry) }

// local reports whether the configuration lets hosts reach an address. The address is "HOST:PORT" with HOST as written,
// before any lookup.
func (c Config) local(address string) bool {
	host := address
	if at := strings.LastIndexByte(address, ':'); at > 0 {
		host = address[:at]
	}
	return slices.Contains(c.HostsMayReach, address) || slices.Contains(c.HostsMayReach, host)
}
