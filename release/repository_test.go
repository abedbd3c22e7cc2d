package release

import (
	"bytes"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/config"
	"sigs.k8s.io/yaml"
)

// options are those of the release under test.
var options = Options{Version: "v0.1.0", Source: ".."}

// made caches the files of each release that a test has requested, because rendering takes a while.
var made sync.Map

func repository(t *testing.T, o Options) Files {
	t.Helper()
	once, _ := made.LoadOrStore(o, sync.OnceValues(func() (Files, error) { return Repository(o) }))
	files, err := once.(func() (Files, error))()
	if err != nil {
		t.Fatal(err)
	}
	return maps.Clone(files)
}

// in returns the files of one provider by name.
func (f Files) in(label, version string) Files {
	found := Files{}
	for name, text := range f {
		if dir, base := path.Split(name); dir == label+"/"+version+"/" {
			found[base] = text
		}
	}
	return found
}

// objects reads the documents of a file with variables replaced by their defaults.
func objects(t *testing.T, text []byte) (all []*unstructured.Unstructured) {
	t.Helper()
	withDefaults := regexp.MustCompile(`\$\{(\w+)(?::=([^}]*))?\}`).ReplaceAllFunc(text, func(v []byte) []byte {
		if name, value, ok := strings.Cut(strings.Trim(string(v), "${}"), ":="); ok {
			return []byte(value)
		} else if strings.HasSuffix(name, "_COUNT") {
			return []byte("3")
		} else {
			return []byte(strings.ToLower(strings.ReplaceAll(name, "_", "-")))
		}
	})
	for document := range bytes.SplitSeq(withDefaults, []byte("\n---\n")) {
		o := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict(document, &o.Object); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		all = append(all, o)
	}
	return all
}

// TestRepository checks the files and their names.
func TestRepository(t *testing.T) {
	files := repository(t, options)
	want := map[string][]string{
		"infrastructure-capstan": {
			"cluster-template-external.yaml", "cluster-template-ha.yaml", "cluster-template-topology-owned.yaml",
			"cluster-template-topology.yaml", "cluster-template-vip.yaml", "cluster-template.yaml",
			"clusterclass-capstan-local.yaml", "clusterclass-capstan-owned.yaml",
			"infrastructure-components-own-certificates.yaml", "infrastructure-components.yaml", "metadata.yaml",
		},
		"runtime-extension-capstan": {"metadata.yaml", "runtime-extension-components.yaml", "runtime-sdk-openapi.yaml"},
	}
	count := 0
	for label, names := range want {
		if got := slices.Sorted(maps.Keys(files.in(label, "v0.1.0"))); !slices.Equal(got, names) {
			t.Errorf("%s has %v, want %v", label, got, names)
		}
		count += len(names)
	}
	if len(files) != count {
		t.Errorf("%d files, want %d: %v", len(files), count, slices.Sorted(maps.Keys(files)))
	}
}

// providers are our providers by label, with the type in clusterctl's configuration.
var providers = map[string]clusterctlv1.ProviderType{
	Infrastructure:   clusterctlv1.InfrastructureProviderType,
	RuntimeExtension: clusterctlv1.RuntimeExtensionProviderType,
}

// TestRepositoryHasWhatClusterctlReads looks up each file by the path that clusterctl uses.
func TestRepositoryHasWhatClusterctlReads(t *testing.T) {
	for _, v := range []string{"v0.1.0", "v0.1.1"} {
		files := repository(t, Options{Version: v, Source: ".."})
		for label := range providers {
			of := files.in(label, v)
			if len(of[MetadataFile]) == 0 {
				t.Errorf("%s/%s has no metadata.yaml", label, v)
			}
			t.Attr("rule", "CT-02")
			t.Attr("rule", "CT-28")
			components := 0
			for name := range of {
				if strings.HasSuffix(name, "components.yaml") {
					components++
				}
			}
			if components != 1 {
				t.Errorf("%s/%s has %d files with components, want one", label, v, components)
			}
			t.Attr("rule", "CT-03")
			t.Attr("rule", "CT-27")
		}
		for name := range files {
			label, rest, _ := strings.Cut(name, "/")
			directory, _, _ := strings.Cut(rest, "/")
			if providers[label] == "" || directory != v || strings.Count(name, "/") != 2 {
				t.Errorf("%s is not at PROVIDER-LABEL/VERSION/FILE", name)
			}
			t.Attr("rule", "CT-25")
		}
		of := files.in("infrastructure-capstan", v)
		if of["infrastructure-components.yaml"] == nil {
			t.Errorf("the infrastructure provider of %s has no infrastructure-components.yaml", v)
		}
		t.Attr("rule", "CT-38")
		if files.in("runtime-extension-capstan", v)["runtime-extension-components.yaml"] == nil {
			t.Errorf("the runtime extension of %s has no runtime-extension-components.yaml", v)
		}
		t.Attr("rule", "CT-42")
		if of["cluster-template.yaml"] == nil {
			t.Errorf("%s has no default template", v)
		}
		t.Attr("rule", "CT-04")
		t.Attr("rule", "CT-65")
	}
}

// TestAssetsOfOneRelease: a hosted release has one list of file names for both providers, so two files of the same name
// must not differ.
func TestAssetsOfOneRelease(t *testing.T) {
	assets := map[string][]byte{}
	for name, text := range repository(t, options) {
		base := path.Base(name)
		if other, ok := assets[base]; ok && !bytes.Equal(other, text) {
			t.Errorf("two files of a release are called %s, and differ", base)
		}
		assets[base] = text
	}
	for _, name := range []string{
		MetadataFile, InfrastructureComponents, RuntimeExtensionComponents, "cluster-template.yaml",
	} {
		if len(assets[name]) == 0 {
			t.Errorf("a release has no asset %s", name)
		}
	}
	t.Attr("rule", "CT-16")
}

// TestNamesOfProviders compares our names and labels with what clusterctl accepts, and with its own list.
func TestNamesOfProviders(t *testing.T) {
	file := filepath.Join(t.TempDir(), "clusterctl.yaml")
	if err := os.WriteFile(file, []byte("providers: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.New(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	predefined, err := c.Providers().List()
	if err != nil || len(predefined) < 20 {
		t.Fatalf("clusterctl knows %d providers: %v", len(predefined), err)
	}
	for label, kind := range providers {
		name := strings.TrimPrefix(label, clusterctlv1.ManifestLabel("", kind))
		if !regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`).MatchString(name) {
			t.Errorf("clusterctl does not accept the provider name %q", name)
		}
		t.Attr("rule", "CT-09")
		if len(name) > 63 {
			t.Errorf("the name %s has %d characters", name, len(name))
		}
		t.Attr("rule", "CT-10")
		if want := clusterctlv1.ManifestLabel(name, kind); label != want || name != "capstan" {
			t.Errorf("the label of %s %s is %s, want %s", kind, name, label, want)
		}
		if len(repository(t, options).in(label, options.Version)) == 0 {
			t.Errorf("the release has no directory %s", label)
		}
		t.Attr("rule", "CT-73")
		for _, p := range predefined {
			if p.Name() == name && p.Type() == kind {
				t.Errorf("clusterctl's own list has %s %s already, at %s", kind, name, p.URL())
			}
		}
		t.Attr("rule", "CT-08")
	}
}

// TestRepositoryIsReproducible renders the repository twice, the second time from a source tree at another path.
func TestRepositoryIsReproducible(t *testing.T) {
	absolute, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	one, two := repository(t, options), repository(t, Options{Version: options.Version, Source: absolute})
	if !maps.EqualFunc(one, two, bytes.Equal) {
		for name := range one {
			if !bytes.Equal(one[name], two[name]) {
				t.Errorf("%s differs from one run to the next", name)
			}
		}
	}
}
