package controllers

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/featuregate"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	runtimeclient "sigs.k8s.io/cluster-api/exp/runtime/client"
	"sigs.k8s.io/cluster-api/feature"
)

func TestPickVersion(t *testing.T) {
	cases := map[string]struct {
		labels map[string]string
		want   string
	}{
		"the newer contract wins":                      {map[string]string{"cluster.x-k8s.io/v1beta1": "v1beta1", "cluster.x-k8s.io/v1beta2": "v1beta2"}, "v1beta2"},
		"the older contract is better than none":       {map[string]string{"cluster.x-k8s.io/v1beta1": "v1alpha3"}, "v1alpha3"},
		"the highest version of a contract wins":       {map[string]string{"cluster.x-k8s.io/v1beta2": "v1beta1_v1beta2_v1alpha4"}, "v1beta2"},
		"a stable version is higher than a beta":       {map[string]string{"cluster.x-k8s.io/v1beta2": "v1_v1beta9"}, "v1"},
		"no label, no version":                         {nil, ""},
		"an empty label counts as none":                {map[string]string{"cluster.x-k8s.io/v1beta2": "", "cluster.x-k8s.io/v1beta1": "v1"}, "v1"},
		"contracts that nobody knows yet do not count": {map[string]string{"cluster.x-k8s.io/v1": "v1"}, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := pickVersion(c.labels); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestGates(t *testing.T) {
	if err := openGates(); err != nil {
		t.Fatal(err)
	}
	for name, want := range gates {
		if got := feature.Gates.Enabled(featuregate.Feature(name)); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

// extension answers discovery as told.
type extension struct {
	runtimeclient.Client
	err   error
	ready bool
}

func (e extension) IsReady() bool { return e.ready }
func (e extension) Discover(_ context.Context, config *runtimev1.ExtensionConfig) (*runtimev1.ExtensionConfig, error) {
	if e.err != nil {
		return nil, e.err
	}
	found := config.DeepCopy()
	found.Status.Handlers = []runtimev1.ExtensionHandler{{Name: "fresh"}}
	return found, nil
}

func TestPatient(t *testing.T) {
	down := errors.New("connection refused")
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	cases := map[string]struct {
		ctx     context.Context
		client  extension
		handler string
		fails   bool
	}{
		"an extension that answers is asked":                      {t.Context(), extension{}, "fresh", false},
		"during the start, one that is down keeps its handlers":   {t.Context(), extension{err: down}, "old", false},
		"later, one that is down is an error, and is asked again": {t.Context(), extension{err: down, ready: true}, "", true},
		"a start that was ended is an error":                      {cancelled, extension{err: down}, "", true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			config := &runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
			config.Status.Handlers = []runtimev1.ExtensionHandler{{Name: "old"}}
			got, err := patient{c.client}.Discover(c.ctx, config)
			if (err != nil) != c.fails {
				t.Fatalf("got %v", err)
			}
			if err == nil && got.Status.Handlers[0].Name != c.handler {
				t.Errorf("got %v", got.Status.Handlers)
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
				t.Errorf("keeps its data: %v, want %v", kept, keeps)
			}
		})
	}
}
