package metricsapi

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/metadata"
	"k8s.io/metrics/pkg/apis/metrics"
)

// pageSize is how many objects of the API server are in memory at once.
const pageSize = 500

// storage answers the requests for one resource. The API server reports which objects exist, with their labels; the
// reader reports what they use. storage omits objects without figures.
type storage struct {
	rest.TableConvertor
	kind       string
	namespaced bool
	empty      func() runtime.Object
	emptyList  func() runtime.Object
	// fill adds an object's usage to a list if the usage is known.
	fill func(list runtime.Object, of metav1.ObjectMeta, u usages)

	objects metadata.Getter
	reader  *reader
}

var _ rest.Storage = &storage{}
var _ rest.KindProvider = &storage{}
var _ rest.Getter = &storage{}
var _ rest.Lister = &storage{}
var _ rest.Scoper = &storage{}
var _ rest.SingularNameProvider = &storage{}

func newNodes(objects metadata.Getter, r *reader) *storage {
	return &storage{
		TableConvertor: rest.NewDefaultTableConvertor(metrics.Resource("nodes")), kind: "NodeMetrics",
		empty:     func() runtime.Object { return &metrics.NodeMetrics{} },
		emptyList: func() runtime.Object { return &metrics.NodeMetricsList{} },
		fill: func(list runtime.Object, of metav1.ObjectMeta, u usages) {
			if node, ok := nodeMetrics(of, u); ok {
				l := list.(*metrics.NodeMetricsList)
				l.Items = append(l.Items, node)
			}
		},
		objects: objects, reader: r,
	}
}

func newPods(objects metadata.Getter, r *reader) *storage {
	return &storage{
		TableConvertor: rest.NewDefaultTableConvertor(metrics.Resource("pods")), kind: "PodMetrics", namespaced: true,
		empty:     func() runtime.Object { return &metrics.PodMetrics{} },
		emptyList: func() runtime.Object { return &metrics.PodMetricsList{} },
		fill: func(list runtime.Object, of metav1.ObjectMeta, u usages) {
			if pod, ok := podMetrics(of, u); ok {
				l := list.(*metrics.PodMetricsList)
				l.Items = append(l.Items, pod)
			}
		},
		objects: objects, reader: r,
	}
}

// New returns an empty object.
func (s *storage) New() runtime.Object { return s.empty() }

// NewList returns an empty list.
func (s *storage) NewList() runtime.Object { return s.emptyList() }

// Destroy does nothing.
func (s *storage) Destroy() {}

// Kind returns the kind of the objects.
func (s *storage) Kind() string { return s.kind }

// NamespaceScoped reports whether the objects are in namespaces.
func (s *storage) NamespaceScoped() bool { return s.namespaced }

// GetSingularName returns no name, as other servers of this API do.
func (s *storage) GetSingularName() string { return "" }

// List returns the usage of all objects that the options select.
func (s *storage) List(ctx context.Context, options *internalversion.ListOptions) (runtime.Object, error) {
	u, err := s.reader.usages(ctx)
	if err != nil {
		return nil, unavailable(err)
	}
	page := metav1.ListOptions{Limit: pageSize}
	if options != nil && options.LabelSelector != nil {
		page.LabelSelector = options.LabelSelector.String()
	}
	if options != nil && options.FieldSelector != nil {
		page.FieldSelector = options.FieldSelector.String()
	}
	list := s.emptyList()
	for {
		objects, err := s.in(ctx).List(ctx, page)
		if err != nil {
			return nil, fmt.Errorf("listing the objects for %s: %w", s.kind, err)
		}
		for _, o := range objects.Items {
			s.fill(list, o.ObjectMeta, u)
		}
		if page.Continue = objects.Continue; page.Continue == "" {
			return list, nil
		}
	}
}

// Get returns the usage of one object.
func (s *storage) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	object, err := s.in(ctx).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err // the API server's error is sufficient
	}
	u, err := s.reader.usages(ctx)
	if err != nil {
		return nil, unavailable(err)
	}
	list := s.emptyList()
	s.fill(list, object.ObjectMeta, u)
	items, err := meta.ExtractList(list)
	if err != nil || len(items) == 0 {
		return nil, apierrors.NewNotFound(metrics.Resource(s.kind), name)
	}
	return items[0], nil
}

// in returns the objects of the request's namespace, or all objects if the request names none.
func (s *storage) in(ctx context.Context) metadata.ResourceInterface {
	if namespace := request.NamespaceValue(ctx); s.namespaced && namespace != "" {
		return s.objects.Namespace(namespace)
	}
	return s.objects
}

func unavailable(err error) error {
	return apierrors.NewServiceUnavailable(fmt.Sprintf("the metrics can't be read now, try again: %v", err))
}

func nodeMetrics(of metav1.ObjectMeta, u usages) (metrics.NodeMetrics, bool) {
	r, ok := u.nodes[of.Name]
	return metrics.NodeMetrics{
		ObjectMeta: about(of), Timestamp: metav1.NewTime(r.at), Window: metav1.Duration{Duration: r.window}, Usage: list(r),
	}, ok
}

// podMetrics returns the usage of a pod's containers. Its time is that of the container that was measured first.
func podMetrics(of metav1.ObjectMeta, u usages) (metrics.PodMetrics, bool) {
	containers := u.pods[types.NamespacedName{Namespace: of.Namespace, Name: of.Name}]
	pod := metrics.PodMetrics{ObjectMeta: about(of)}
	for _, name := range slices.Sorted(maps.Keys(containers)) {
		r := containers[name]
		pod.Containers = append(pod.Containers, metrics.ContainerMetrics{Name: name, Usage: list(r)})
		if pod.Timestamp.IsZero() || r.at.Before(pod.Timestamp.Time) {
			pod.Timestamp, pod.Window = metav1.NewTime(r.at), metav1.Duration{Duration: r.window}
		}
	}
	return pod, len(containers) > 0
}

// about returns the metadata for an object's figures: the object's name and labels, and the current time as the
// creation time.
func about(of metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: of.Name, Namespace: of.Namespace, Labels: of.Labels, CreationTimestamp: metav1.Now(),
	}
}

func list(r rate) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewScaledQuantity(int64(math.Round(r.cpu*1e9)), resource.Nano),
		corev1.ResourceMemory: *resource.NewQuantity(int64(r.memory), resource.BinarySI),
	}
}
