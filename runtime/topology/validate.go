package topology

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/server"
)

// Validation checks matching templates. Make it with [Validate].
type Validation struct {
	match Match
	check func(ctx context.Context, template []byte, input Input) error
}

// Validate makes a validation of templates as values of their Go type. An error rejects the topology; users read its
// text.
func Validate[T any](match Match, check func(ctx context.Context, template *T, input Input) error) Validation {
	if match == nil || check == nil {
		return Validation{}
	}
	return Validation{match: match, check: func(ctx context.Context, raw []byte, input Input) error {
		template := new(T)
		if err := json.Unmarshal(raw, template); err != nil {
			return fmt.Errorf("decoding a template as %T: %w", *template, err)
		}
		return check(ctx, template, input)
	}}
}

// ValidateTopology combines validations into a handler's function (UH-04). The answer names everything that is wrong,
// in the order of the request.
func ValidateTopology(validations ...Validation) server.Func[runtimehooksv1.ValidateTopologyRequest,
	runtimehooksv1.ValidateTopologyResponse] {
	for _, v := range validations {
		if v.check == nil {
			return nil // which server.New reports
		}
	}
	return func(ctx context.Context, request *runtimehooksv1.ValidateTopologyRequest,
		_ *runtimehooksv1.ValidateTopologyResponse) error {
		var problems []string
		for _, item := range request.Items {
			if item == nil {
				return errors.New("the request has an item that is null")
			}
			template, err := typeOf(item.Object.Raw)
			if err != nil {
				return err
			}
			input := Input{
				Holder: item.HolderReference, Variables: merged(request.Variables, item.Variables), Settings: request.Settings,
			}
			for _, v := range validations {
				if !v.match(template, item.HolderReference) {
					continue
				}
				if err := v.check(ctx, item.Object.Raw, input); err != nil {
					problems = append(problems, fmt.Sprintf("%s of %s %s: %v", template.Kind, item.HolderReference.Kind,
						item.HolderReference.Name, err))
				}
			}
		}
		if len(problems) > 0 {
			return errors.New(strings.Join(problems, ", "))
		}
		return nil
	}
}
