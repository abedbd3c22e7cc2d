package webhook_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
)

// TestDefaults checks that defaults are filled in and visible in the stored object.
func TestDefaults(t *testing.T) {
	for name, c := range map[string]struct {
		kind string
		spec map[string]any
		path []string
		want string
	}{
		"a cluster with an empty spec": {"CapstanCluster", map[string]any{}, []string{"spec", "loadBalancer", "type"},
			"External"},
		"a cluster with an empty section": {"CapstanCluster", map[string]any{"loadBalancer": map[string]any{}},
			[]string{"spec", "loadBalancer", "type"}, "External"},
		"a cluster with a type": {"CapstanCluster", map[string]any{"loadBalancer": map[string]any{"type": "Local"}},
			[]string{"spec", "loadBalancer", "type"}, "Local"},
		"a cluster template": {"CapstanClusterTemplate", inTemplate(map[string]any{}),
			[]string{"spec", "template", "spec", "loadBalancer", "type"}, "External"},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, version string) {
				u := created(t, object(version, c.kind, "defaults", c.spec))
				if got, _, _ := unstructured.NestedString(u.Object, c.path...); got != c.want {
					t.Errorf("%s is %q, want %q", strings.Join(c.path, "."), got, c.want)
				}
			})
		})
	}
}

// TestColumns requests tables like "kubectl get". They must show where a machine runs and why it is not ready.
func TestColumns(t *testing.T) {
	m := object("v1beta2", "CapstanMachine", "columns", map[string]any{"providerID": "capstan://default/host-1/12345678"})
	m.SetLabels(map[string]string{"cluster.x-k8s.io/cluster-name": "demo"})
	status := machineStatus()
	created(t, m)
	m.Object["status"] = status
	must(t, live.api.Status().Update(t.Context(), m))
	web, err := rest.HTTPClientFor(live.Config)
	must(t, err)
	each(t, func(t *testing.T, version string) {
		url := fmt.Sprintf("%s/apis/%s%s/namespaces/%s/capstanmachines/columns", strings.TrimSuffix(live.Config.Host, "/"),
			group, version, ns)
		if !strings.HasPrefix(url, "http") {
			url = "https://" + url
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		must(t, err)
		request.Header.Set("Accept", "application/json;as=Table;g=meta.k8s.io;v=v1")
		response, err := web.Do(request)
		must(t, err)
		defer response.Body.Close()
		data, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
		must(t, err)
		var table metav1.Table
		must(t, json.Unmarshal(data, &table))
		if len(table.Rows) != 1 {
			t.Fatalf("got %s", data)
		}
		var first []string
		for i, column := range table.ColumnDefinitions {
			if column.Priority == 0 && column.Name != "Age" {
				first = append(first, fmt.Sprintf("%s=%v", column.Name, table.Rows[0].Cells[i]))
			}
		}
		want := []string{"Name=columns", "Cluster=demo", "Host=host-1", "Zone=zone-a", "Ready=False", "Reason=HostOffline"}
		if !slices.Equal(first, want) {
			t.Errorf("got %v, want %v", first, want)
		}
	})
}
