package manifests

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
)

// provider says how the objects of one provider are labelled and named.
type provider struct {
	// directory is the provider's directory in upstream's sources. It is empty for Capstan's own.
	directory string
	// label is the value of the label cluster.x-k8s.io/provider, which is also the name of the inventory object. It is
	// empty for objects that belong to no provider.
	label string
	// prefix is prepended to the names of webhook configurations, which are the same in all of upstream's modules.
	prefix string
	// contracts are the labels by which Cluster API finds the API version for a contract. Upstream's kustomization adds
	// them to the bootstrap and control plane CRDs, so the plane must, too; Capstan's CRDs are generated with theirs.
	contracts map[string]string
	// conversion is set if every CRD of the provider uses a conversion webhook, even one with a single version.
	conversion bool
	// name, kind and namespace are those of clusterctl's inventory object.
	name, kind, namespace string
}

var bothContracts = map[string]string{"cluster.x-k8s.io/v1beta1": "v1beta1", "cluster.x-k8s.io/v1beta2": "v1beta2"}

var providers = []provider{
	{directory: "core", label: "cluster-api", prefix: "capi-", conversion: true,
		name: "cluster-api", kind: "CoreProvider", namespace: "capi-system"},
	{directory: "bootstrap", label: "bootstrap-kubeadm", prefix: "capi-kubeadm-bootstrap-", contracts: bothContracts,
		conversion: true,
		name:       "kubeadm", kind: "BootstrapProvider", namespace: "capi-kubeadm-bootstrap-system"},
	{directory: "control-plane", label: "control-plane-kubeadm", prefix: "capi-kubeadm-control-plane-",
		contracts: bothContracts, conversion: true,
		name: "kubeadm", kind: "ControlPlaneProvider", namespace: "capi-kubeadm-control-plane-system"},
	{directory: "clusterctl"},
	{label: "infrastructure-capstan", prefix: "capstan-",
		name: "capstan", kind: "InfrastructureProvider", namespace: "capstan-system"},
}

// labels returns the labels of every object of the provider.
func (p provider) labels() map[string]string {
	if p.label == "" {
		return nil
	}
	return map[string]string{
		"cluster.x-k8s.io/provider": p.label,
		// clusterctl move finds the types to move by this label.
		"clusterctl.cluster.x-k8s.io": "",
	}
}

// head is the part of an object that identifies it.
type head struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"metadata"`
}

// fitCRD labels a CustomResourceDefinition and points its conversion to our webhooks. It does not decode the schemas,
// which are nearly all of its bytes.
func fitCRD(p provider, data []byte, webhooks Webhooks) (Object, error) {
	var what head
	var object, spec map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(data, &what), json.Unmarshal(data, &object),
		json.Unmarshal(object["spec"], &spec)); err != nil {
		return Object{}, err
	}
	if what.Kind != "CustomResourceDefinition" {
		return Object{}, fmt.Errorf("found %s %s instead of a CustomResourceDefinition", what.Kind, what.Metadata.Name)
	}
	var versions []json.RawMessage
	if err := json.Unmarshal(spec["versions"], &versions); err != nil {
		return Object{}, fmt.Errorf("spec.versions: %w", err)
	}
	if p.conversion || len(versions) > 1 {
		spec["conversion"] = encode(map[string]any{
			"strategy": "Webhook",
			"webhook": map[string]any{
				"conversionReviewVersions": []string{"v1"},
				"clientConfig":             map[string]any{"url": webhooks.url("/convert"), "caBundle": webhooks.CABundle},
			},
		})
	}
	labels := p.labels()
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, p.contracts)
	if err := label(object, labels); err != nil {
		return Object{}, err
	}
	object["spec"] = encode(spec)
	return Object{
		Kind: what.Kind, Name: what.Metadata.Name,
		Collection: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
		JSON:       encode(object),
	}, nil
}

// fitWebhooks gives a webhook configuration its own name, and points each webhook to us instead of a Service.
func fitWebhooks(p provider, data []byte, webhooks Webhooks) (Object, error) {
	var what head
	var object map[string]json.RawMessage
	var hooks []map[string]any
	if err := errors.Join(json.Unmarshal(data, &what), json.Unmarshal(data, &object),
		json.Unmarshal(object["webhooks"], &hooks)); err != nil {
		return Object{}, err
	}
	if !strings.HasSuffix(what.Kind, "WebhookConfiguration") {
		return Object{}, fmt.Errorf("found %s %s instead of a webhook configuration", what.Kind, what.Metadata.Name)
	}
	for _, hook := range hooks {
		config, _ := hook["clientConfig"].(map[string]any)
		service, _ := config["service"].(map[string]any)
		path, _ := service["path"].(string)
		if path == "" {
			return Object{}, fmt.Errorf("webhook %v has no service path", hook["name"])
		}
		hook["clientConfig"] = map[string]any{"url": webhooks.url(path), "caBundle": webhooks.CABundle}
	}
	object["webhooks"] = encode(hooks)
	name := p.prefix + strings.TrimPrefix(what.Metadata.Name, p.prefix)
	if err := rename(object, name); err != nil {
		return Object{}, err
	}
	if err := label(object, p.labels()); err != nil {
		return Object{}, err
	}
	return Object{
		Kind: what.Kind, Name: name,
		Collection: "/apis/admissionregistration.k8s.io/v1/" + strings.ToLower(what.Kind) + "s",
		JSON:       encode(object),
	}, nil
}

// label adds labels to the metadata of object.
func label(object map[string]json.RawMessage, labels map[string]string) error {
	return edit(object, func(metadata map[string]any) {
		all, _ := metadata["labels"].(map[string]any)
		if all == nil {
			all = map[string]any{}
		}
		for key, value := range labels {
			all[key] = value
		}
		metadata["labels"] = all
	})
}

// rename sets the name of object.
func rename(object map[string]json.RawMessage, name string) error {
	return edit(object, func(metadata map[string]any) { metadata["name"] = name })
}

// edit changes the metadata of object.
func edit(object map[string]json.RawMessage, change func(map[string]any)) error {
	var metadata map[string]any
	if err := json.Unmarshal(object["metadata"], &metadata); err != nil {
		return fmt.Errorf("metadata: %w", err)
	}
	change(metadata)
	object["metadata"] = encode(metadata)
	return nil
}
