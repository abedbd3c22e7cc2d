package release

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/yaml"
)

// Metadata lists the release series and the contract of each (rules CT-28 to CT-33 of the clusterctl contract). The
// first release of a new minor version needs an entry here. Both providers publish the file without series newer than
// the release, because clusterctl looks for the latest release of a contract in the newest series listed, and fails if
// that series has no release yet.
//
//go:embed metadata.yaml
var Metadata []byte

// series is all releases with the same major and minor version.
type series struct {
	Major    uint   `json:"major"`
	Minor    uint   `json:"minor"`
	Contract string `json:"contract"`
}

// list is the content of metadata.yaml.
type list struct {
	APIVersion    string   `json:"apiVersion"`
	Kind          string   `json:"kind"`
	ReleaseSeries []series `json:"releaseSeries"`
}

// upTo returns metadata.yaml as a release publishes it. The release's series must be listed.
func upTo(metadata []byte, text string) ([]byte, error) {
	v, err := version.ParseSemantic(text)
	if err != nil {
		return nil, fmt.Errorf("version %q is not semantic: %w", text, err)
	}
	var l list
	if err := yaml.UnmarshalStrict(metadata, &l); err != nil {
		return nil, fmt.Errorf("reading metadata.yaml: %w", err)
	}
	l.ReleaseSeries = slices.DeleteFunc(l.ReleaseSeries, func(s series) bool {
		return s.Major > v.Major() || (s.Major == v.Major() && s.Minor > v.Minor())
	})
	out, err := yaml.Marshal(l)
	if err != nil {
		return nil, fmt.Errorf("writing metadata.yaml: %w", err)
	}
	return out, nil
}

// contract returns the contract version of a release, such as v1beta2. If the version is not one of ours, the error
// says what to change.
func contract(metadata []byte, text string) (string, error) {
	if !strings.HasPrefix(text, "v") {
		return "", fmt.Errorf("version %q does not begin with v: give one such as v0.1.0", text)
	}
	v, err := version.ParseSemantic(text)
	if err != nil {
		return "", fmt.Errorf("version %q is not semantic: give one such as v0.1.0: %w", text, err)
	}
	if v.BuildMetadata() != "" {
		return "", fmt.Errorf("version %q has build metadata, which tags of images can't have: leave +%s out", text,
			v.BuildMetadata())
	}
	var m list
	if err := yaml.UnmarshalStrict(metadata, &m); err != nil {
		return "", fmt.Errorf("reading metadata.yaml: %w", err)
	}
	if m.APIVersion != "clusterctl.cluster.x-k8s.io/v1alpha3" || m.Kind != "Metadata" {
		return "", fmt.Errorf("metadata.yaml is %s of %s: clusterctl reads Metadata of clusterctl.cluster.x-k8s.io/v1alpha3",
			m.Kind, m.APIVersion)
	}
	for _, s := range m.ReleaseSeries {
		if s.Major == v.Major() && s.Minor == v.Minor() {
			return s.Contract, nil
		}
	}
	return "", fmt.Errorf("version %s is of no release series: add %d.%d to release/metadata.yaml, with its contract",
		text, v.Major(), v.Minor())
}
