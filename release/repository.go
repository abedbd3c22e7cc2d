package release

import (
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/capstan-dev/capstan/templates"
)

// The labels of our providers. clusterctl finds each provider in a directory named like its label (rules CT-25 and
// CT-73 of the clusterctl contract).
const (
	Infrastructure   = "infrastructure-capstan"
	RuntimeExtension = "runtime-extension-capstan"
)

// Files of the provider repository whose names clusterctl prescribes (rules CT-38, CT-42 and CT-65 of its contract).
const (
	MetadataFile               = "metadata.yaml"
	InfrastructureComponents   = "infrastructure-components.yaml"
	OwnCertificatesComponents  = "infrastructure-components-own-certificates.yaml"
	RuntimeExtensionComponents = "runtime-extension-components.yaml"
)

const templatePrefix, classPrefix, postfix = "cluster-template", "clusterclass-", ".yaml"

// DefaultImagePrefix is the prefix of images that are loaded onto nodes instead of pulled from a registry.
const DefaultImagePrefix = "localhost"

// extensionImage is the image of the runtime extension.
const extensionImage = "capstan-extension"

// Images are the names of the container images of a release.
var Images = []string{"capstan-manager", extensionImage}

// Options describe the release to build.
type Options struct {
	// Version is a semantic version that begins with v, such as v0.1.0. metadata.yaml must list its series.
	Version string
	// ImagePrefix is where the images will be published: registry and path without a trailing slash. Default:
	// DefaultImagePrefix.
	ImagePrefix string
	// Source is the root directory of the source tree.
	Source string
}

// Files are file contents by slash-separated path.
type Files map[string][]byte

// Repository renders the YAML files of the provider repository in the layout that clusterctl reads from a local
// directory: LABEL/VERSION/FILE.
func Repository(o Options) (Files, error) {
	if _, err := contract(Metadata, o.Version); err != nil {
		return nil, err
	}
	metadata, err := upTo(Metadata, o.Version)
	if err != nil {
		return nil, err
	}
	if err := o.canonical(); err != nil {
		return nil, err
	}
	files := Files{}
	for label, directories := range map[string]map[string]string{
		Infrastructure:   {InfrastructureComponents: "default", OwnCertificatesComponents: "own-certificates"},
		RuntimeExtension: {RuntimeExtensionComponents: "runtime-extension"},
	} {
		files[path.Join(label, o.Version, MetadataFile)] = metadata
		for name, directory := range directories {
			text, err := components(o, directory)
			if err != nil {
				return nil, fmt.Errorf("making %s: %w", name, err)
			}
			files[path.Join(label, o.Version, name)] = text
		}
	}
	if err := addHooks(files, o); err != nil {
		return nil, err
	}
	names, err := fs.Glob(templates.Files, "*"+postfix)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if !strings.HasPrefix(name, templatePrefix) && !strings.HasPrefix(name, classPrefix) {
			return nil, fmt.Errorf("templates/%s is neither a cluster template nor a ClusterClass by its name", name)
		}
		if files[path.Join(Infrastructure, o.Version, name)], err = templates.Files.ReadFile(name); err != nil {
			return nil, err
		}
	}
	return files, nil
}
