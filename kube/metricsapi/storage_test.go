package metricsapi

import (
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/metadata/fake"
	"k8s.io/metrics/pkg/apis/metrics"
)

// readings returns a reader that already has readings and takes no others.
func readings(points map[container]point) *reader {
	base := map[container]point{}
	for key, p := range points {
		base[key] = point{at: p.at.Add(-10 * time.Second)}
	}
	r := newReader(nil)
	r.before = &reading{at: time.Now(), nodes: map[string]map[container]point{"n": base}}
	r.after = &reading{at: time.Now(), nodes: map[string]map[container]point{"n": points}}
	return r
}

func TestStorage(t *testing.T) {
	object := func(kind, namespace, name string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: kind},
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"is": name}},
		}
	}
	s := fake.NewTestScheme()
	if err := metav1.AddMetaToScheme(s); err != nil {
		t.Fatal(err)
	}
	objects := fake.NewSimpleMetadataClient(s, object("Node", "", "n"), object("Node", "", "silent"),
		object("Pod", "one", "p"), object("Pod", "two", "p"), object("Pod", "two", "q"), object("Pod", "two", "pending"))
	core := schema.GroupVersion{Version: "v1"}
	r := readings(map[container]point{
		{}:                  {at: begin, cpu: 5, memory: 100},
		{"one", "p", "b"}:   {at: begin.Add(time.Second), cpu: 1, memory: 10},
		{"one", "p", "a"}:   {at: begin, cpu: 0.001, memory: 20},
		{"two", "p", "a"}:   {at: begin, cpu: 1},
		{"two", "q", "a"}:   {at: begin, cpu: 1},
		{"gone", "pod", ""}: {at: begin, cpu: 1},
	})
	pods := newPods(objects.Resource(core.WithResource("pods")), r)
	nodes := newNodes(objects.Resource(core.WithResource("nodes")), r)
	one := request.WithNamespace(t.Context(), "one")

	list, err := pods.List(t.Context(), nil)
	if err != nil || len(list.(*metrics.PodMetricsList).Items) != 3 {
		t.Errorf("all pods: %v, %v; want three", list, err)
	}
	selected := labels.SelectorFromSet(labels.Set{"is": "q"})
	list, err = pods.List(t.Context(), &internalversion.ListOptions{LabelSelector: selected})
	if err != nil || len(list.(*metrics.PodMetricsList).Items) != 1 {
		t.Errorf("selected pods: %v, %v; want one", list, err)
	}
	if table, err := pods.ConvertToTable(t.Context(), list, nil); err != nil || len(table.Rows) != 1 {
		t.Errorf("the table is %v, %v", table, err)
	}
	got, err := pods.Get(one, "p", nil)
	if err != nil {
		t.Fatal(err)
	}
	p := got.(*metrics.PodMetrics)
	if len(p.Containers) != 2 || p.Containers[0].Name != "a" || p.Namespace != "one" || p.Labels["is"] != "p" ||
		!p.Timestamp.Time.Equal(begin) || p.Window.Duration != 10*time.Second {
		t.Errorf("the pod is %+v", p)
	}
	if u := p.Containers[0].Usage; u.Cpu().String() != "100u" || u.Memory().Value() != 20 {
		t.Errorf("the container uses %v", u)
	}
	if _, err := pods.Get(one, "q", nil); !apierrors.IsNotFound(err) {
		t.Errorf("a pod of another namespace: %v", err)
	}
	if _, err := pods.Get(request.WithNamespace(t.Context(), "two"), "pending", nil); !apierrors.IsNotFound(err) {
		t.Errorf("a pod without figures: %v", err)
	}
	list, err = nodes.List(t.Context(), nil)
	if err != nil || len(list.(*metrics.NodeMetricsList).Items) != 1 {
		t.Fatalf("the Nodes are %v, %v; want one", list, err)
	}
	if u := list.(*metrics.NodeMetricsList).Items[0].Usage; u.Cpu().MilliValue() != 500 ||
		u.Memory().Value() != 100 {
		t.Errorf("the Node uses %v", u)
	}
}
