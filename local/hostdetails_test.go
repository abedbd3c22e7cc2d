package local

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

func TestDescribeHost(t *testing.T) {
	h := withConditions(after(&infrav1.HostClaim{Machine: "m", Cluster: "c"}, nil), "Ready True InUse in use")
	h.Labels = map[string]string{"disk": "ssd"}
	h.Spec.Maintenance, h.Spec.Epoch = "new disks", 3
	h.Spec.Bundles.Source, h.Spec.Bundles.Mirror.URL = "Mirror", "https://mirror.example"
	h.Spec.Addresses = []infrav1.HostAddress{{Type: infrav1.HostExternalDNS, Address: "a.example.com"}}
	h.Status.Agent = &infrav1.AgentReport{
		OperatingSystem: "Debian", Architecture: "amd64", Processors: 4, MemoryMiB: 8000, Virtualization: "none",
		Version: "v1", Model: "PowerEdge", ProcessorModel: "Xeon", Address: "10.0.0.1",
		Addresses: []string{"10.0.0.1", "fd00::1"},
		Disks:     []infrav1.HostDisk{{Name: "sda", SizeGiB: 100, Rotational: true}, {Name: "sdb", SizeGiB: 50}},
	}
	d, err := DescribeHost(t.Context(), inventoryOf(t, h), client.ObjectKeyFromObject(h))
	if err != nil {
		t.Fatal(err)
	}
	facts := Facts{
		OperatingSystem: "Debian", Architecture: "amd64", Processors: 4, MemoryMiB: 8000, DisksGiB: 150,
		Virtualization: "none", AgentVersion: "v1",
	}
	if d.Facts != facts || d.Machine != "m" || d.Labels["disk"] != "ssd" || d.Work != "maintenance: new disks" ||
		d.Epoch != 3 || d.Bundles != "Mirror https://mirror.example" ||
		d.Model != "PowerEdge" || len(d.Disks) != 2 || d.WaitsFor != "the manager to reconcile it" ||
		!reflect.DeepEqual(d.Addresses, []string{"10.0.0.1", "fd00::1", "a.example.com (ExternalDNS)"}) {
		t.Errorf("got %+v", d)
	}
	data, err := json.Marshal(d)
	if err != nil || !strings.Contains(string(data), `"name":"rack1"`) || !strings.Contains(string(data), `"waitsFor":`) {
		t.Errorf("the details as JSON are %s, error %v", data, err)
	}
	if _, err := DescribeHost(t.Context(), inventoryOf(t), client.ObjectKey{Name: "x"}); err == nil {
		t.Error("describing a host that does not exist returned no error")
	}
}

func TestWorkOf(t *testing.T) {
	now := metav1.Now()
	for want, edit := range map[string]func(*infrav1.CapstanHost){
		"":                func(*infrav1.CapstanHost) {},
		"cordon":          func(h *infrav1.CapstanHost) { h.Spec.Unschedulable = true },
		"drain":           func(h *infrav1.CapstanHost) { h.Spec.Unschedulable, h.Spec.Drain = true, true },
		"maintenance: up": func(h *infrav1.CapstanHost) { h.Spec.Drain, h.Spec.Maintenance = true, "up" },
		"remove":          func(h *infrav1.CapstanHost) { h.Spec.Drain, h.DeletionTimestamp = true, &now },
	} {
		h := after(nil, nil)
		edit(h)
		if got := workOf(h); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
