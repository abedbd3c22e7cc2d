package release

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

// options of the release that the tests look at.
var options = Options{Version: "v0.1.0", Source: ".."}

func repository(t *testing.T, o Options) Files {
	t.Helper()
	files, err := Repository(o)
	if err != nil {
		t.Fatal(err)
	}
	return files
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

// objects reads the documents of a file with the defaults of its variables in their places.
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

// TestRepository looks at the files and their names (CT-01 to CT-05, CT-09, CT-10, CT-16, CT-22, CT-25 to CT-28, CT-38, CT-42, CT-61, CT-64 to CT-66, CT-73, CT-75, CT-77, CT-78).
func TestRepository(t *testing.T) {
	files := repository(t, options)
	want := map[string][]string{
		"infrastructure-capstan": {
			"cluster-template-external.yaml", "cluster-template-ha.yaml", "cluster-template-topology-owned.yaml", "cluster-template-topology.yaml",
			"cluster-template-vip.yaml", "cluster-template.yaml", "clusterclass-capstan-local.yaml", "clusterclass-capstan-owned.yaml",
			"infrastructure-components-own-certificates.yaml", "infrastructure-components.yaml", "metadata.yaml",
		},
		"runtime-extension-capstan": {"metadata.yaml", "runtime-extension-components.yaml"},
	}
	count := 0
	for label, names := range want {
		if got := slices.Sorted(maps.Keys(files.in(label, "v0.1.0"))); !slices.Equal(got, names) {
			t.Errorf("%s has %v, want %v", label, got, names)
		}
		if errs := validation.IsDNS1123Label(label); len(errs) > 0 {
			t.Errorf("label %s: %v", label, errs)
		}
		count += len(names)
	}
	if len(files) != count {
		t.Errorf("%d files, want %d: %v", len(files), count, slices.Sorted(maps.Keys(files)))
	}
}

// TestRepositoryIsReproducible makes it twice, the second time from a source tree at another path.
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

// TestVersions are those that can be released (CT-15, CT-21, CT-26, CT-29 to CT-32).
func TestVersions(t *testing.T) {
	good := string(Metadata)
	for name, c := range map[string]struct{ metadata, version, want, fails string }{
		"a release":                    {good, "v0.1.0", "v1beta2", ""},
		"a candidate":                  {good, "v0.2.0-rc.1", "v1beta2", ""},
		"a release of the older serie": {good, "v0.0.9", "v1beta1", ""},
		"no v":                         {good, "0.1.0", "", "does not begin with v"},
		"two numbers":                  {good, "v0.1", "", "is not semantic"},
		"a word":                       {good, "v-next", "", "is not semantic"},
		"build metadata":               {good, "v0.1.0+x", "", "has build metadata"},
		"a minor without a series":     {good, "v0.9.0", "", "add 0.9 to release/metadata.yaml"},
		"no series":                    {"apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3\nkind: Metadata\n", "v0.1.0", "", "is of no release series"},
		"another kind":                 {"apiVersion: v1\nkind: ConfigMap\n", "v0.1.0", "", "clusterctl reads Metadata"},
		"broken metadata":              {"releaseSeries: 1", "v0.1.0", "", "reading metadata.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := contract([]byte(c.metadata), c.version)
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Errorf("error %v, want one with %q", err, c.fails)
				}
			} else if err != nil || got != c.want {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
		})
	}
}

// A release names no series that is newer: clusterctl would look for the latest release there, and find none (CT-18, CT-31).
func TestNoReleaseNamesNewerSeries(t *testing.T) {
	for version, want := range map[string]string{"v0.0.7": "0.0", "v0.1.3": "0.0 0.1", "v0.2.0-rc.1": "0.0 0.1 0.2"} {
		text, err := upTo(Metadata, version)
		if err != nil {
			t.Fatal(err)
		}
		var l list
		if err := yaml.UnmarshalStrict(text, &l); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range l.ReleaseSeries {
			got = append(got, fmt.Sprintf("%d.%d", s.Major, s.Minor))
		}
		if strings.Join(got, " ") != want || l.Kind != "Metadata" {
			t.Errorf("release %s names the series %v, want %s:\n%s", version, got, want, text)
		}
	}
}

// TestContractIsThatOfTheLabels compares metadata with definitions in releases of both contracts (CT-33, CT-34, IM-38, IC-60).
func TestContractIsThatOfTheLabels(t *testing.T) {
	for version, want := range map[string]string{"v0.0.1": "v1beta1", "v0.1.0": "v1beta2"} {
		files := repository(t, Options{Version: version, Source: ".."}).in(Infrastructure, version)
		found := 0
		for _, o := range objects(t, files[InfrastructureComponents]) {
			if o.GetKind() != "CustomResourceDefinition" || strings.HasPrefix(o.GetName(), "capstanhosts.") {
				continue
			}
			found++
			newest := ""
			for label := range o.GetLabels() {
				if v, ok := strings.CutPrefix(label, "cluster.x-k8s.io/v"); ok {
					newest = max(newest, "v"+v)
				}
			}
			if newest != want {
				t.Errorf("in %s the newest contract of %s is %s, want %s", version, o.GetName(), newest, want)
			}
		}
		if found != 4 {
			t.Errorf("%d definitions in %s, want 4", found, version)
		}
	}
}
