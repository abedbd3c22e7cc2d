package manifests

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/config/admission"
)

// AdmissionPolicies returns the policies about what hosts and tenants may write, and their bindings.
func AdmissionPolicies() ([]Object, error) {
	documents, err := admission.Documents()
	if err != nil {
		return nil, err
	}
	ours := providers[slices.IndexFunc(providers, func(p provider) bool { return p.name == "capstan" })]
	var objects []Object
	for _, document := range documents {
		object, err := fitPolicy(ours, document)
		if err != nil {
			return nil, fmt.Errorf("reading the admission policies: %w", err)
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// fitPolicy labels an admission policy or its binding.
func fitPolicy(p provider, document []byte) (Object, error) {
	data, err := yaml.YAMLToJSON(document)
	if err != nil {
		return Object{}, err
	}
	var what head
	var object map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(data, &what), json.Unmarshal(data, &object)); err != nil {
		return Object{}, err
	}
	collections := map[string]string{
		"ValidatingAdmissionPolicy":        "validatingadmissionpolicies",
		"ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
	}
	collection, known := collections[what.Kind]
	if !known {
		return Object{}, fmt.Errorf("found %s %s instead of an admission policy", what.Kind, what.Metadata.Name)
	}
	if err := label(object, p.labels()); err != nil {
		return Object{}, err
	}
	return Object{
		Kind: what.Kind, Name: what.Metadata.Name,
		Collection: "/apis/admissionregistration.k8s.io/v1/" + collection,
		JSON:       encode(object),
	}, nil
}
