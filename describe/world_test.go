package describe

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

var errServer = errors.New("the server does not answer")

// world is an API server with objects. Before it answers a Get, it calls beforeGet with the number of that Get;
// beforeGet may change the objects or return an error.
func world(t *testing.T, beforeGet func(c client.Client, get int) error, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clusterv1.AddToScheme, controlplanev1.AddToScheme, infrav1.AddToScheme, runtimev1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	gets := 0
	inner := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	return interceptor.NewClient(inner, interceptor.Funcs{
		Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption,
		) error {
			gets++
			if beforeGet != nil {
				if err := beforeGet(inner, gets); err != nil {
					return err
				}
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
}
