// Package manifests holds the objects that turn an API server into a Cluster API management cluster. These are the
// CustomResourceDefinitions and webhook configurations of Capstan and of Cluster API's core, kubeadm bootstrap and
// kubeadm control plane providers, and the inventory that clusterctl expects. The definitions and configurations are
// adapted to a plane whose webhooks run in one process outside the cluster.
package manifests

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/config/crd"
	"github.com/capstan-dev/capstan/config/webhook"
)

//go:embed all:upstream
var upstream embed.FS

// ErrMissing says that this binary was built without upstream's manifests.
var ErrMissing = errors.New("built without manifests: run make generate and build again")

// Object is one object as the API server should store it.
type Object struct {
	// Kind, Namespace and Name identify the object; Namespace is empty for cluster-scoped ones.
	Kind, Namespace, Name string
	// Collection is the API path at which to create the object; Collection+"/"+Name is the path at which to read and
	// change it.
	Collection string
	// JSON is the object, without the annotation [HashAnnotation].
	JSON []byte
}

// HashAnnotation is set on each applied object; its value is [Object.Hash]. If the stored object already has this
// value, the object is not applied again.
const HashAnnotation = "plane.capstan.dev/hash"

// Hash returns a hash of the object's content.
func (o Object) Hash() string {
	sum := sha256.Sum256(o.JSON)
	return hex.EncodeToString(sum[:16])
}

// IsCRD reports whether the object is a CustomResourceDefinition.
func (o Object) IsCRD() bool { return o.Kind == "CustomResourceDefinition" }

// Webhooks says where the webhooks of all controllers are served.
type Webhooks struct {
	// Address is host:port. The server's certificate must be valid for host.
	Address string
	// CABundle is the PEM of the certificate authority that signed the server's certificate.
	CABundle []byte
}

// url returns the URL at which the API server reaches path.
func (w Webhooks) url(path string) string { return "https://" + w.Address + path }

// Version returns the Cluster API version of the manifests, such as v1.14.2. The error is [ErrMissing] or nil.
func Version() (string, error) {
	text, err := upstream.ReadFile("upstream/version")
	if err != nil {
		return "", ErrMissing
	}
	return strings.TrimSpace(string(text)), nil
}

// CRDs returns all CustomResourceDefinitions: upstream's, that of clusterctl's inventory, and Capstan's. The parameter
// contract, such as v1beta1, limits the labels of Capstan's definitions to that contract version. If contract is empty,
// they have the labels of all versions.
func CRDs(webhooks Webhooks, contract string) ([]Object, error) {
	if _, err := Version(); err != nil {
		return nil, err
	}
	var objects []Object
	for _, p := range providers {
		files, err := read(p, contract)
		if err != nil {
			return nil, err
		}
		for name, lines := range files {
			if name == webhooksFile {
				continue
			}
			for _, line := range lines {
				object, err := fitCRD(p, line, webhooks)
				if err != nil {
					return nil, fmt.Errorf("reading the manifest %s of %s: %w", name, p.label, err)
				}
				objects = append(objects, object)
			}
		}
	}
	// Package apply writes several definitions at a time. The largest take longest, so they come first.
	slices.SortFunc(objects, func(a, b Object) int {
		return cmp.Or(cmp.Compare(len(b.JSON), len(a.JSON)), cmp.Compare(a.Name, b.Name))
	})
	return objects, nil
}

// WebhookConfigurations returns the webhook configurations of all providers.
func WebhookConfigurations(webhooks Webhooks) ([]Object, error) {
	if _, err := Version(); err != nil {
		return nil, err
	}
	var objects []Object
	for _, p := range providers {
		lines, err := documents(p)
		if err != nil {
			return nil, err
		}
		for _, line := range lines {
			object, err := fitWebhooks(p, line, webhooks)
			if err != nil {
				return nil, fmt.Errorf("reading the webhooks of %s: %w", p.label, err)
			}
			objects = append(objects, object)
		}
	}
	return objects, nil
}

// webhooksFile is the name of the file with the webhook configurations of a provider.
const webhooksFile = "webhooks.json"

// read returns the objects of a provider as JSON. The result maps file names to objects.
func read(p provider, contract string) (map[string][][]byte, error) {
	files := map[string][][]byte{}
	if p.directory == "" {
		ours, err := crd.ForContract(contract)
		if err != nil {
			return nil, err
		}
		for name, object := range ours {
			files[name] = [][]byte{object}
		}
		return files, nil
	}
	entries, err := upstream.ReadDir("upstream/" + p.directory)
	if err != nil {
		return nil, fmt.Errorf("%w (%s is missing)", ErrMissing, p.directory)
	}
	for _, entry := range entries {
		data, err := upstream.ReadFile("upstream/" + p.directory + "/" + entry.Name())
		if err != nil {
			return nil, err
		}
		files[entry.Name()] = bytes.Split(bytes.TrimSpace(data), []byte("\n"))
	}
	return files, nil
}

// documents returns the webhook configurations of a provider as JSON.
func documents(p provider) ([][]byte, error) {
	if p.directory != "" {
		files, err := read(p, "")
		return files[webhooksFile], err
	}
	var lines [][]byte
	for _, document := range bytes.Split(webhook.Manifests, []byte("\n---")) {
		object, err := yaml.YAMLToJSON(document)
		if err != nil {
			return nil, fmt.Errorf("reading the webhook configurations of Capstan: %w", err)
		}
		if !bytes.Equal(bytes.TrimSpace(object), []byte("null")) {
			lines = append(lines, object)
		}
	}
	return lines, nil
}

// encode is json.Marshal for values that can always be encoded, such as values that were decoded from JSON.
func encode(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encoding a manifest as JSON: %v", err))
	}
	return data
}
