package webhook

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capstan-dev/capstan/api/v1beta2"
)

// refuse returns the API error for an object with these mistakes, or nil if there are none.
func refuse(kind, name string, mistakes field.ErrorList) error {
	if len(mistakes) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: v1beta2.GroupVersion.Group, Kind: kind}, name, mistakes)
}
