package main

import (
	"io"
	"os"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"
)

// The program takes the arguments that its Deployment gives it.
func TestArgumentsOfTheDeployment(t *testing.T) {
	data, err := os.ReadFile("../../config/extension/deployment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var deployment appsv1.Deployment
	if err := yaml.UnmarshalStrict(data, &deployment); err != nil {
		t.Fatal(err)
	}
	var f flags
	if err := f.parse(deployment.Spec.Template.Spec.Containers[0].Args, io.Discard); err != nil {
		t.Fatal(err)
	}
	if f.listen == "" || f.healthz == "" || f.certSecret == "" || f.certHosts == "" || f.kubeconfig != "" {
		t.Errorf("got %+v", f)
	}
}
