package main

import (
	"io"
	"os"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"
)

// TestArgumentsOfTheDeployment: the program accepts the arguments in its Deployment.
func TestArgumentsOfTheDeployment(t *testing.T) {
	data, err := os.ReadFile("../../config/extension/deployment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var deployment appsv1.Deployment
	if err := yaml.UnmarshalStrict(data, &deployment); err != nil {
		t.Fatal(err)
	}
	arguments := deployment.Spec.Template.Spec.Containers[0].Args
	bundle := slices.Index(arguments, "--bundle=/capstan-kube")
	if bundle < 0 {
		t.Fatalf("the arguments have no bundle to verify backups with: %q", arguments)
	}
	arguments[bundle] = "--bundle=" + os.Args[0] // the other path exists only in the image
	var f flags
	if err := f.parse(arguments, io.Discard); err != nil {
		t.Fatal(err)
	}
	if f.listen == "" || f.healthz == "" || f.certSecret == "" || f.certHosts == "" || f.kubeconfig != "" {
		t.Errorf("the parsed flags are %+v", f)
	}
}
