package release

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/version"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"
)

// TestVersions: only semantic versions of a series in metadata.yaml can be released.
func TestVersions(t *testing.T) {
	good := string(Metadata)
	const none = "apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3\nkind: Metadata\n"
	for name, c := range map[string]struct{ metadata, version, want, fails string }{
		"a release":                        {good, "v0.1.0", "v1beta2", ""},
		"a candidate":                      {good, "v0.2.0-rc.1", "v1beta2", ""},
		"a release of an old series":       {good, "v0.0.9", "v1beta1", ""},
		"no v":                             {good, "0.1.0", "", "does not begin with v"},
		"two numbers":                      {good, "v0.1", "", "is not semantic"},
		"a word":                           {good, "v-next", "", "is not semantic"},
		"build metadata":                   {good, "v0.1.0+x", "", "has build metadata"},
		"a minor version without a series": {good, "v0.9.0", "", "add 0.9 to release/metadata.yaml"},
		"no series":                        {none, "v0.1.0", "", "is of no release series"},
		"another kind":                     {"apiVersion: v1\nkind: ConfigMap\n", "v0.1.0", "", "clusterctl reads Metadata"},
		"broken metadata":                  {"releaseSeries: 1", "v0.1.0", "", "reading metadata.yaml"},
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
	for _, v := range []string{"0.1.0", "v0.1", "v-next"} {
		if files, err := Repository(Options{Version: v, Source: ".."}); err == nil {
			t.Errorf("version %s was released, with %d files", v, len(files))
		}
		t.Attr("rule", "CT-15")
		t.Attr("rule", "CT-26")
	}
}

// A release lists no newer series: clusterctl would look there for the latest release and find none.
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

// TestPublishedMetadata reads metadata.yaml as releases publish it.
func TestPublishedMetadata(t *testing.T) {
	for _, v := range []string{"v0.0.9", "v0.1.0", "v0.2.0-rc.1"} {
		of, err := version.ParseSemantic(v)
		if err != nil {
			t.Fatal(err)
		}
		for label := range providers {
			var l list
			text := repository(t, Options{Version: v, Source: ".."}).in(label, v)[MetadataFile]
			if err := yaml.UnmarshalStrict(text, &l); err != nil {
				t.Fatal(err)
			}
			if l.APIVersion != "clusterctl.cluster.x-k8s.io/v1alpha3" || l.Kind != "Metadata" {
				t.Errorf("metadata.yaml of %s %s is %s of %s", label, v, l.Kind, l.APIVersion)
			}
			t.Attr("rule", "CT-30")
			if len(l.ReleaseSeries) == 0 {
				t.Errorf("%s %s names no release series", label, v)
			}
			t.Attr("rule", "CT-31")
			listed := false
			for _, s := range l.ReleaseSeries {
				listed = listed || s.Major == of.Major() && s.Minor == of.Minor()
				if s.Contract == "" {
					t.Errorf("%s %s names no contract of series %d.%d", label, v, s.Major, s.Minor)
				}
			}
			t.Attr("rule", "CT-29")
			if !listed {
				t.Errorf("%s %s does not list its own series: %+v", label, v, l.ReleaseSeries)
			}
			t.Attr("rule", "CT-32")
			for _, s := range l.ReleaseSeries {
				if s.Contract != clusterv1.GroupVersion.Version && s.Contract != "v1beta1" {
					t.Errorf("%s %s names contract %s, which core does not accept", label, v, s.Contract)
				}
			}
			t.Attr("rule", "CT-33")
		}
	}
}

// TestContractIsThatOfTheLabels compares metadata with definitions, in releases of both contracts.
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
			var l list
			if err := yaml.UnmarshalStrict(files[MetadataFile], &l); err != nil {
				t.Fatal(err)
			}
			if said := l.ReleaseSeries[len(l.ReleaseSeries)-1].Contract; said != newest {
				t.Errorf(
					"metadata.yaml of %s says contract %s, the labels of %s %s",
					version,
					said,
					o.GetName(),
					newest,
				)
			}
			t.Attr("rule", "CT-34")
		}
		if found != 4 {
			t.Errorf("%d definitions in %s, want 4", found, version)
		}
		t.Attr("rule", "IM-38 "+want)
	}
	t.Attr("rule", "IC-60 v1beta2")
}
