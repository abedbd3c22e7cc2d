package local

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/internal/hint"
	"github.com/capstan-dev/capstan/provider/bundlepolicy"
)

// Bundles says how owned hosts get the programs of a node. The zero value is the default: hosts use their own programs
// if they have them, else the plane's bundles, and there is no limit on bandwidth.
type Bundles struct {
	// Policy says where the programs come from, unless spec.bundles of a host says otherwise.
	Policy infrav1.BundlePolicy `json:"policy,omitzero"`
	// Bandwidth limits what the plane sends to all hosts together, in bytes per second. Zero means no limit.
	Bandwidth int64 `json:"bandwidth,omitempty"`
}

// minBandwidth is the smallest limit. At that rate, a bundle takes hours.
const minBandwidth = 64 << 10

// ParseBandwidth parses a number of bytes per second, such as 20M or 512Ki. An empty text and 0 mean no limit.
// ParseBandwidth returns an error for less than 64Ki.
func ParseBandwidth(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	const advice = "give bytes per second, for example 20M, or 0 for no limit"
	rate, err := resource.ParseQuantity(text)
	if err != nil {
		return 0, hint.Errorf(advice, "the bandwidth can't be %q", text)
	}
	if n := rate.Value(); n == 0 || n >= minBandwidth {
		return n, nil
	}
	return 0, hint.Errorf(advice, "the bandwidth can't be %s: at least 64Ki", text)
}

// BundleOptions change Bundles. Nil fields keep what was chosen before.
type BundleOptions struct {
	// Source and Mirror are the arguments of bundlepolicy.Parse. A new source drops the mirror.
	Source, Mirror *string
	// Bandwidth is the argument of ParseBandwidth.
	Bandwidth *string
}

// applied applies the options to the settings in kept, and returns the result.
func (o BundleOptions) applied(kept Bundles) (Bundles, error) {
	wanted := kept
	if o.Bandwidth != nil {
		var err error
		if wanted.Bandwidth, err = ParseBandwidth(*o.Bandwidth); err != nil {
			return Bundles{}, err
		}
	}
	if o.Source == nil && o.Mirror == nil {
		return wanted, nil
	}
	source, mirror := string(kept.Policy.Source), kept.Policy.Mirror.URL
	if o.Source != nil {
		if *o.Source != source {
			mirror = ""
		}
		source = *o.Source
	}
	if o.Mirror != nil {
		mirror = *o.Mirror
	}
	var err error
	wanted.Policy, err = bundlepolicy.Parse(source, mirror)
	return wanted, err
}

// arguments returns the plane's flags for these bundles.
func (b Bundles) arguments() []string {
	var argv []string
	if b.Policy.Source != "" {
		argv = append(argv, "--bundle-source", string(b.Policy.Source))
	}
	if b.Policy.Mirror.URL != "" {
		argv = append(argv, "--bundle-mirror", b.Policy.Mirror.URL)
	}
	if b.Bandwidth > 0 {
		argv = append(argv, "--bundle-bandwidth", fmt.Sprint(b.Bandwidth))
	}
	return argv
}
