package rules

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/randfill"

	"github.com/capstan-dev/capstan/runtime/hook"
)

// Conversions tests all conversions of a catalog with random requests and responses. The error names those that break
// rule 2. The same seed produces the same test. Every conversion must meet these conditions (RS-03, RS-04):
//
//   - it never fails and never panics, even for an empty object;
//   - it does not change its input, and returns the same result for the same input;
//   - status, message and retryAfterSeconds of a response survive, and so do the settings of a request;
//   - the result can be encoded and decoded.
//
// Call it from a fuzz test with the seed as its argument, or in a loop.
func Conversions(catalog *hook.Catalog, seed int64) error {
	filler := randfill.New().RandSource(rand.NewSource(seed)).NilChance(0.3).NumElements(0, 3).MaxDepth(12).Funcs(
		func(e *runtime.RawExtension, c randfill.Continue) {
			*e = runtime.RawExtension{Raw: fmt.Appendf(nil, `{"value":%d}`, c.Int31())}
		},
		func(v *metav1.FieldsV1, _ randfill.Continue) { v.SetRawBytes([]byte("{}")) },
		func(v *apiextensionsv1.JSON, c randfill.Continue) { v.Raw = fmt.Appendf(nil, "%d", c.Int31()) },
		func(v *intstr.IntOrString, c randfill.Continue) { *v = intstr.FromInt32(c.Int31()) },
		func(s *runtimehooksv1.ResponseStatus, c randfill.Continue) {
			*s = runtimehooksv1.ResponseStatusSuccess
			if c.Bool() {
				*s = runtimehooksv1.ResponseStatusFailure
			}
		},
	)
	var errs []error
	for _, older := range catalog.All() {
		if catalog.IsNewest(older.ID) {
			continue
		}
		for _, newest := range catalog.Versions(older.ID.Family()) {
			conversion, err := catalog.Conversion(newest, older.ID)
			if err != nil || conversion == nil {
				continue // another older version
			}
			for _, fill := range []func(any){func(any) {}, filler.Fill} { // an empty one and a random one
				request, response := newest.NewRequest(), older.NewResponse()
				fill(request)
				fill(response)
				errs = append(errs, tryDown(conversion, newest.ID, request), tryUp(conversion, older.ID, response))
			}
		}
	}
	return errors.Join(errs...)
}

func tryDown(conversion *hook.Conversion, id hook.ID, request runtime.Object) error {
	convert := func(from runtime.Object) (runtime.Object, error) { return conversion.Down(from) }
	older, err := try(convert, request)
	if err != nil {
		return fmt.Errorf("the request of %s down to %s: %w (RS-03)", id, conversion.Served().ID.Version, err)
	}
	from, hasSettings := request.(runtimehooksv1.RequestObject)
	to, alsoHas := older.(runtimehooksv1.RequestObject)
	if hasSettings && alsoHas && !sameSettings(from.GetSettings(), to.GetSettings()) {
		return fmt.Errorf("the request of %s down to %s: the settings are lost (RS-03)", id, conversion.Served().ID.Version)
	}
	return decodes(older, conversion.Served().NewRequest())
}

func tryUp(conversion *hook.Conversion, id hook.ID, response runtimehooksv1.ResponseObject) error {
	convert := func(from runtime.Object) (runtime.Object, error) { return conversion.Up(from) }
	converted, err := try(convert, response)
	if err != nil {
		return fmt.Errorf("the response of %s up: %w (RS-04)", id, err)
	}
	newest, ok := converted.(runtimehooksv1.ResponseObject)
	if !ok || newest.GetStatus() != response.GetStatus() || newest.GetMessage() != response.GetMessage() {
		return fmt.Errorf("the response of %s up: status or message are lost (RS-04)", id)
	}
	from, canWait := response.(runtimehooksv1.RetryResponseObject)
	to, alsoCan := newest.(runtimehooksv1.RetryResponseObject)
	if canWait && (!alsoCan && from.GetRetryAfterSeconds() != 0 ||
		alsoCan && from.GetRetryAfterSeconds() != to.GetRetryAfterSeconds()) {
		return fmt.Errorf("the response of %s up: retryAfterSeconds is lost, so it no longer blocks (RS-04)",
			id)
	}
	return nil
}

// try converts twice.
func try(convert func(runtime.Object) (runtime.Object, error), from runtime.Object) (to runtime.Object, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("the conversion panicked: %v", cause)
		}
	}()
	before, err := json.Marshal(from)
	if err != nil {
		return nil, fmt.Errorf("encoding it: %w", err)
	}
	first, err := convert(from)
	if err != nil {
		return nil, err
	}
	second, err := convert(from)
	if err != nil {
		return nil, err
	}
	if after, err := json.Marshal(from); err != nil || !bytes.Equal(before, after) {
		return nil, errors.New("the conversion changes what it converts")
	}
	one, err := json.Marshal(first)
	if err != nil {
		return nil, fmt.Errorf("encoding the result: %w", err)
	}
	if two, err := json.Marshal(second); err != nil || !bytes.Equal(one, two) {
		return nil, errors.New("the conversion is not deterministic")
	}
	return first, nil
}

func decodes(object, into runtime.Object) error {
	data, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("encoding the result: %w", err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("decoding the result: %w", err)
	}
	return nil
}

func sameSettings(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for key, value := range a {
		if other, ok := b[key]; !ok || other != value {
			return false
		}
	}
	return true
}
