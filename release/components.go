package release

import (
	"bytes"
	"cmp"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"github.com/distribution/reference"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// contractLabel is the prefix of the label for a contract version. The label's value lists the API versions that
// implement that contract (rule IM-35 of the provider contract).
const contractLabel = "cluster.x-k8s.io/"

// components renders a base of config/ for the release: it pins the images and limits the labels of definitions to
// the release's contract.
func components(o Options, base string) ([]byte, error) {
	options := krusty.MakeDefaultOptions()
	options.LoadRestrictions = types.LoadRestrictionsNone // a base may use single files of another
	resources, err := krusty.MakeKustomizer(options).Run(filesys.MakeFsOnDisk(), filepath.Join(o.Source, "config", base))
	if err != nil {
		return nil, fmt.Errorf("building config/%s: %w", base, err)
	}
	version, err := contract(Metadata, o.Version)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for i, object := range resources.Resources() {
		if err := fit(object, version); err != nil {
			return nil, err
		}
		text, err := object.AsYAML()
		if err != nil {
			return nil, fmt.Errorf("writing %s %s: %w", object.GetKind(), object.GetName(), err)
		}
		if i > 0 {
			out.WriteString("---\n")
		}
		out.Write(text)
	}
	return pin(out.Bytes(), o)
}

// fit removes the labels of newer contracts from a definition. Otherwise Cluster API would use them, whereas clusterctl
// follows metadata.yaml (rule CT-34 of the clusterctl contract).
func fit(object *resource.Resource, contract string) error {
	if object.GetKind() != "CustomResourceDefinition" {
		return nil
	}
	labels := object.GetLabels()
	for label := range labels {
		if v, ok := strings.CutPrefix(label, contractLabel); ok && strings.HasPrefix(v, "v1") && v > contract {
			delete(labels, label)
		}
	}
	if err := object.SetLabels(labels); err != nil {
		return fmt.Errorf("labelling %s: %w", object.GetName(), err)
	}
	return nil
}

// pin replaces the sources' images, tagged "latest", by the images of the release.
func pin(text []byte, o Options) ([]byte, error) {
	pinned := 0
	for _, name := range Images {
		old, image := []byte("image: "+name+":latest\n"), []byte("image: "+o.Image(name)+"\n")
		pinned += bytes.Count(text, old)
		text = bytes.ReplaceAll(text, old, image)
	}
	if pinned == 0 || bytes.Contains(text, []byte(":latest\n")) {
		return nil, fmt.Errorf("the components have %d images of ours, or others that are not pinned", pinned)
	}
	return text, nil
}

// Image returns the reference of an image of this release, such as PREFIX/capstan-manager:v0.1.0.
func (o Options) Image(name string) string {
	return path.Join(cmp.Or(o.ImagePrefix, DefaultImagePrefix), name) + ":" + o.Version
}

// canonical returns an error if clusterctl would reject the image names, which must include their registry (rule CT-52
// of the clusterctl contract).
func (o Options) canonical() error {
	for _, name := range Images {
		if _, err := reference.ParseNamed(o.Image(name)); err != nil {
			return fmt.Errorf("image prefix %q makes the name %s: %w; give a registry and a path, such as "+
				"registry.example.com/capstan", o.ImagePrefix, o.Image(name), err)
		}
	}
	return nil
}
