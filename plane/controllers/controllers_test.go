package controllers

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPickVersion(t *testing.T) {
	cases := map[string]struct {
		labels map[string]string
		want   string
	}{
		"the newer contract wins": {
			map[string]string{"cluster.x-k8s.io/v1beta1": "v1beta1", "cluster.x-k8s.io/v1beta2": "v1beta2"}, "v1beta2",
		},
		"the older contract is better than none": {map[string]string{"cluster.x-k8s.io/v1beta1": "v1alpha3"},
			"v1alpha3"},
		"the highest version of a contract wins": {
			map[string]string{"cluster.x-k8s.io/v1beta2": "v1beta1_v1beta2_v1alpha4"}, "v1beta2",
		},
		"a stable version is higher than a beta": {map[string]string{"cluster.x-k8s.io/v1beta2": "v1_v1beta9"}, "v1"},
		"no label means no version":              {nil, ""},
		"an empty label counts as none": {
			map[string]string{"cluster.x-k8s.io/v1beta2": "", "cluster.x-k8s.io/v1beta1": "v1"}, "v1",
		},
		"unknown contracts do not count": {map[string]string{"cluster.x-k8s.io/v1": "v1"}, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := pickVersion(c.labels); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestTrimSecret(t *testing.T) {
	cases := map[string]bool{
		"demo-kubeconfig": true, "demo-ca": true, "demo-etcd": true, "demo-sa": true, "demo-proxy": true,
		"demo-cp-x7k2p": false, "token": false,
	}
	for name, keeps := range cases {
		t.Run(name, func(t *testing.T) {
			out, err := trimSecret(&corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: name, ManagedFields: []metav1.ManagedFieldsEntry{{}}},
				Data:       map[string][]byte{"value": []byte("x")},
			})
			if err != nil {
				t.Fatal(err)
			}
			s := out.(*corev1.Secret)
			if kept := s.Data != nil; kept != keeps || s.ManagedFields != nil {
				t.Errorf("is the data kept? got %v, want %v", kept, keeps)
			}
		})
	}
}
