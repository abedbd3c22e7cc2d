package metricsapi

import (
	_ "embed"
	"strings"
)

// Names of the server's objects.
const (
	Name           = "metrics-api"
	Namespace      = "kube-system"
	KubeletAccount = Name + "-kubelets" // its tokens are sent to kubelets
	apiService     = "v1beta1.metrics.k8s.io"
)

//go:embed manifest.yaml
var manifest string

// Manifest returns all objects of a cluster's metrics API, with the image of a release.
func Manifest(version string) string { return strings.ReplaceAll(manifest, "@VERSION@", version) }
