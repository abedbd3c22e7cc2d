package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

func TestTheTableOfSpecsIsReadable(t *testing.T) {
	table, err := readSpecs("../../test/upstream/specs.yaml")
	if err != nil {
		t.Fatal(err)
	}
	sources, err := filepath.Glob("../../test/upstream/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var suite strings.Builder
	for _, path := range sources {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		suite.Write(data)
	}
	for _, s := range table {
		if runs := strings.Contains(suite.String(), `Label("`+s.Name+`")`); runs != (s.Cause == "") {
			t.Errorf("spec %s: in the suite: %t; the table says why it can't run: %t", s.Name, runs, s.Cause != "")
		}
	}
	if labels := strings.Count(suite.String(), `, Label("`); labels == 0 || labels > len(table) {
		t.Errorf("the suite has %d specs, the table %d", labels, len(table))
	}
}

func TestSpecsAreChosenByName(t *testing.T) {
	table := []spec{{Name: "A"}, {Name: "B"}, {Name: "C", Cause: "it needs a registry"}}
	for name, c := range map[string]struct {
		names []string
		want  string
		err   string
	}{
		"no name chooses all that can run": {want: "A B"},
		"a name chooses that spec":         {names: []string{"B"}, want: "B"},
		"an unknown name":                  {names: []string{"D"}, err: "there is no spec D"},
		"a spec that can't run":            {names: []string{"C"}, err: "it needs a registry"},
	} {
		t.Run(name, func(t *testing.T) {
			chosen, err := choose(table, c.names)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got error %v, want %q", err, c.err)
				}
				return
			}
			var names []string
			for _, s := range chosen {
				names = append(names, s.Name)
			}
			if got := strings.Join(names, " "); err != nil || got != c.want {
				t.Errorf("the chosen specs are %q, error %v, want %q", got, err, c.want)
			}
		})
	}
}

func TestReportCountsWhatDidNotPass(t *testing.T) {
	verdicts, err := verdictsOf(t, `[{"SpecReports": [
		{"State": "passed"},
		{"ContainerHierarchyLabels": [["A"]], "State": "passed", "RunTime": 61000000000},
		{"ContainerHierarchyLabels": [["B"]], "State": "failed", "RunTime": 2000000000, "Failure": {"Message": "late"}},
		{"ContainerHierarchyLabels": [["D"]], "State": "skipped"}]}]`)
	if err != nil {
		t.Fatal(err)
	}
	table := []spec{{Name: "A", Deviations: []string{"no network plugin"}}, {Name: "B"}, {Name: "C"}, {Name: "D"}}
	var out bytes.Buffer
	if failed := report(&out, table, table[:3], verdicts); failed != 2 {
		t.Errorf("%d specs failed, want 2: one failed, one did not run", failed)
	}
	for _, want := range []string{
		"A     passed   1m1s", "B     failed   2s", "C     not run", "A deviates: no network plugin",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "D ") {
		t.Errorf("the report names a spec that was not chosen:\n%s", out.String())
	}
}

func TestConfigurationKeepsUpstreamsIntervals(t *testing.T) {
	upstream := []byte(`
providers: [{name: docker, type: InfrastructureProvider}]
variables: {KUBERNETES_VERSION: v9.9.9, CLUSTER_TOPOLOGY: "true"}
intervals: {default/wait-cluster: [5m, 10s]}
`)
	providers, err := readProviders([]byte(`{"items": [
		{"providerName": "cluster-api", "type": "CoreProvider", "version": "v1.14.2"},
		{"providerName": "kubeadm", "type": "BootstrapProvider", "version": "v1.14.2"},
		{"providerName": "kubeadm", "type": "ControlPlaneProvider", "version": "v1.14.2"},
		{"providerName": "capstan", "type": "InfrastructureProvider", "version": "v0.1.7"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	write := func(providers []installed) (string, error) {
		return writeConfig(t.TempDir(), upstream, providers, map[string][]byte{"cluster-template.yaml": []byte("a: b")},
			map[string]string{"KUBERNETES_VERSION": "v1.36.3"})
	}
	path, err := write(providers)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var config configuration
	if err := yaml.Unmarshal(data, &config); err != nil {
		t.Fatal(err)
	}
	if got := config.Intervals["default/wait-cluster"]; len(got) != 2 || got[0] != "5m" {
		t.Errorf("the intervals are %v, want upstream's", config.Intervals)
	}
	if config.Variables["KUBERNETES_VERSION"] != "v1.36.3" || config.Variables["CLUSTER_TOPOLOGY"] != "true" {
		t.Errorf("the variables are %v", config.Variables)
	}
	last := config.Providers[len(config.Providers)-1]
	if len(config.Providers) != 4 || last.Name != "capstan" || last.Versions[0].Name != "v0.1.7" ||
		len(last.Versions[0].Files) != 2 {
		t.Errorf("the providers are %+v", config.Providers)
	}
	about, err := os.ReadFile(last.Versions[0].Files[0].SourcePath)
	if err != nil || !strings.Contains(string(about), "{major: 0, minor: 1, contract: v1beta2}") {
		t.Errorf("the metadata of v0.1.7 is wrong, error %v:\n%s", err, about)
	}
	if _, err := write(providers[:3]); err == nil || !strings.Contains(err.Error(), "InfrastructureProvider capstan") {
		t.Errorf("without our provider: got error %v", err)
	}
}
