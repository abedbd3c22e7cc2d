package v1beta1

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DataAnnotation is on a v1beta1 object that can't represent everything in the v1beta2 object it was converted from.
// Its value is the content (spec and status) of the v1beta2 object as JSON. Cluster API's own types use the same key.
const DataAnnotation = "cluster.x-k8s.io/conversion-data"

// FailureDomainAnnotation is on a v1beta2 template that was written as v1beta1 with spec.template.spec.failureDomain.
// Its value is that field, which v1beta2 lacks.
const FailureDomainAnnotation = "infrastructure.capstan.dev/v1beta1-failure-domain"

// content is the part of a v1beta2 object that conversion changes: everything but its type and metadata.
type content[Spec, Status any] struct {
	Spec   Spec   `json:"spec"`
	Status Status `json:"status"`
}

// remember stores old, the content of a v1beta2 object, in the v1beta1 object made from that object. It stores nothing
// if the v1beta1 object represents everything in old. again is the content that converting the v1beta1 object back
// would return without the stored content.
func remember[C any](object metav1.Object, old, again C) error {
	if equality.Semantic.DeepEqual(old, again) {
		return nil
	}
	data, err := json.Marshal(old)
	if err != nil {
		return fmt.Errorf("encoding the content for annotation %s: %w", DataAnnotation, err)
	}
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[DataAnnotation] = string(data)
	object.SetAnnotations(annotations)
	return nil
}

// recall removes DataAnnotation from the object and returns the content stored in the annotation, or nil.
//
// A value that can't be read is ignored: an error would make all objects of the kind unreadable because of this one. A
// readable value is only a hint: it is used where it agrees with the visible fields.
func recall[C any](object metav1.Object) *C {
	annotations := object.GetAnnotations()
	data, ok := annotations[DataAnnotation]
	if !ok {
		return nil
	}
	delete(annotations, DataAnnotation)
	object.SetAnnotations(annotations)
	old := new(C)
	if err := json.Unmarshal([]byte(data), old); err != nil {
		return nil
	}
	return old
}

// provisioned converts v1beta1's flag ready to v1beta2, where false differs from not set. old is the earlier v1beta2
// value.
func provisioned(ready bool, old *bool) *bool {
	if ready || old != nil {
		return &ready
	}
	return nil
}

func deref[T any](p *T) T {
	if p == nil {
		return *new(T)
	}
	return *p
}

// pointer returns nil for the zero value.
func pointer[T comparable](v T) *T {
	if v == *new(T) {
		return nil
	}
	return &v
}
